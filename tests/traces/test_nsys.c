/// Exports of Nsight Systems: what ranges cost through launches of any thread, processes kept
/// apart, and files that lack something. The databases are made here, with numbers worked out by
/// hand; the ranges of one are those that nsys itself wrote.
#include "base/file.h"
#include "tests/test.h"
#include "tests/test_memory.h"
#include "traces/import/import_kineto.h"
#include "traces/import/kineto.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char schema[] =
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, eventType INTEGER, text TEXT,"
    " globalTid INTEGER, textId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, globalTid INTEGER,"
    " correlationId INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, deviceId INTEGER,"
    " correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, end INTEGER, correlationId INTEGER,"
    " globalPid INTEGER);"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME(utcEpochNs INTEGER);"
    "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(1700000000000000000);"
    "INSERT INTO StringIds VALUES(1,'gemm'),(2,'ncclDevKernel_SendRecv'),(3,'PP:0B0');";

// Process 100 has device 1 and process 200 device 0; both use the same correlations. Their high
// bits are those of a machine, as nsys writes them.
#define PROCESS(pid) ((INT64_C(1) << 48) + ((int64_t)(pid) << 24))

static void run_sql(sqlite3 *db, const char *sql)
{
    char *reason = NULL;
    if (sqlite3_exec(db, sql, NULL, NULL, &reason) != SQLITE_OK) fail_msg("%s: %s", sql, reason);
}

/// Puts a row; in its values what sqlite3_mprintf writes.
static void put(sqlite3 *db, const char *table, const char *values, ...)
{
    va_list all;
    va_start(all, values);
    char *row = sqlite3_vmprintf(values, all);
    va_end(all);
    char *sql = sqlite3_mprintf("INSERT INTO %s VALUES(%s)", table, row);
    run_sql(db, sql);
    sqlite3_free(sql);
    sqlite3_free(row);
}

static void put_range(sqlite3 *db, int pid, int tid, int begin, int end, const char *text)
{
    put(db, "NVTX_EVENTS", "%d,%d,59,%Q,%lld,NULL", begin, end, text,
        (long long)PROCESS(pid) + tid);
}

static void put_launch(sqlite3 *db, int pid, int tid, int begin, int correlation)
{
    put(db, "CUPTI_ACTIVITY_KIND_RUNTIME", "%d,%d,%lld,%d", begin, begin + 5,
        (long long)PROCESS(pid) + tid, correlation);
}

static void put_kernel(sqlite3 *db, int pid, int correlation, int begin, int end, int name)
{
    put(db, "CUPTI_ACTIVITY_KIND_KERNEL", "%d,%d,%d,%d,%lld,%d", begin, end, pid == 100 ? 1 : 0,
        correlation, (long long)PROCESS(pid), name);
}

static sqlite3 *open_empty(void)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    return db;
}

/// Two ranks: F and B of one microbatch in iteration 3.
static sqlite3 *make_two(void)
{
    sqlite3 *db = open_empty();
    run_sql(db, schema);
    for (int pid = 100; pid <= 200; pid += 100) {
        put_range(db, pid, 7, 0, 10000, "ProfilerStep#3");
        put_range(db, pid, 7, 100, 200, pid == 100 ? "PP:0F0, op_id = 4" : "PP:1F0");
        put_range(db, pid, 7, 110, 150, "aten::mm, seq = 1, op_id = 5");
        if (pid == 200) put_range(db, pid, 7, 300, 600, "PP:1B0");
        put_launch(db, pid, 7, 120, 1);
        put_launch(db, pid, 7, 130, 2);
        put_launch(db, pid, 8, 400, 3); // of the backward's own thread
        put_launch(db, pid, 7, 700, 4); // outside
    }
    put(db, "NVTX_EVENTS", "300,600,60,NULL,%lld,3", (long long)PROCESS(100) + 7);
    put_kernel(db, 100, 1, 1000, 1100, 1);
    put_kernel(db, 100, 2, 1050, 1200, 1);
    put_kernel(db, 100, 3, 1300, 1350, 2);
    put_kernel(db, 100, 4, 1400, 1410, 1);
    put_kernel(db, 100, 9, 1500, 1600, 1);
    put_kernel(db, 200, 1, 2000, 2300, 1);
    put_kernel(db, 200, 3, 2400, 2500, 1);
    put(db, "CUPTI_ACTIVITY_KIND_MEMCPY", "1360,1400,3,%lld", (long long)PROCESS(100));
    return db;
}

/// Reads the database as the bytes of a file, and closes it.
static status read_database(sqlite3 *db, trace_nsys_file *file, error_message *err)
{
    sqlite3_int64 length = 0;
    unsigned char *bytes = sqlite3_serialize(db, "main", &length, 0);
    const trace_profile_source source = {.path = "run", .bytes = bytes, .length = (size_t)length};
    const status result = trace_nsys_read(&source, memory, file, err);
    sqlite3_free(bytes);
    sqlite3_close(db);
    return result;
}

static void assert_refused(sqlite3 *db, status code, const char *message)
{
    trace_nsys_file file = {.recording_count = -7};
    assert_fails(read_database(db, &file, &why), code, message);
    assert_int_equal(file.recording_count, -7);
}

TEST(ranges_cost_what_was_launched_for_them_by_any_thread)
{
    trace_nsys_file file;

    require(read_database(make_two(), &file, &why));

    assert_int_equal(file.recording_count, 2);
    const trace_recording *last = &file.recordings[1]; // of device 1
    assert_int_equal(last->cell_count, 2);
    assert_int_equal(last->cells[0].kind, TRACE_OP_FORWARD);
    assert_int_equal(last->cells[0].iteration, 3);
    assert_int_equal(last->cells[0].layer, 0);
    assert_int_equal(last->cells[0].busy_ns, 200); // the union of [1000, 1100) and [1050, 1200)
    assert_int_equal(last->cells[1].kind, TRACE_OP_BACKWARD);
    assert_int_equal(last->cells[1].busy_ns, 40);
    assert_int_equal(last->cells[1].communication_ns, 50);
    assert_int_equal(last->cells[1].span_ns, 100);
    assert_int_equal(last->ops.op_count, 6);
    assert_int_equal(last->ops.loads, 4);
    assert_int_equal(last->ops.outside, 1);
    assert_int_equal(last->ops.without_launch, 1);
    assert_int_equal(last->base_ns, 1700000000000000000);
    // Correlations of other processes are not joined.
    const trace_recording *first = &file.recordings[0]; // of device 0
    assert_int_equal(first->rank, 0);
    assert_int_equal(first->ops.op_count, 2);
    assert_int_equal(first->cells[0].layer, 1);
    assert_int_equal(first->cells[0].busy_ns, 300);
    assert_int_equal(first->cells[1].busy_ns, 100);
}

TEST(ranges_that_nsys_wrote_are_read)
{
    char *sql = NULL;
    size_t length = 0;
    trace_nsys_file file;
    sqlite3 *db = open_empty();
    assert_ok(file_read("traces/nsys/ranges.sql", 1 << 20, &sql, &length, NULL));
    run_sql(db, sql);
    free(sql);
    // Of the thread 281871858556008: F0 is [61618768, 63959691), B0 [63960782, 66043568).
    run_sql(
        db,
        "DELETE FROM NVTX_EVENTS WHERE text LIKE 'dynmo %'; -- a finer name than PyTorch's\n"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start, globalTid, correlationId);"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, correlationId, globalPid,"
        " demangledName);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(61620000,281871858556008,1),"
        " (64000000,281871858556008,2);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 62000000,62000900,0,1,"
        " (281871858556008 >> 24) << 24,NULL;"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 65000000,65000070,0,2,"
        " (281871858556008 >> 24) << 24,NULL;");

    require(read_database(db, &file, &why));

    assert_int_equal(file.recording_count, 1);
    const trace_recording *only = &file.recordings[0];
    assert_int_equal(only->naming, TRACE_NAMED_BY_PIPELINE);
    assert_int_equal(only->cell_count, 4); // F and B of two microbatches
    assert_int_equal(only->cells[0].iteration, 3);
    assert_int_equal(only->cells[0].kind, TRACE_OP_FORWARD);
    assert_int_equal(only->cells[0].busy_ns, 900);
    assert_int_equal(only->cells[1].kind, TRACE_OP_BACKWARD);
    assert_int_equal(only->cells[1].busy_ns, 70);
    assert_true(only->has_base);
}

TEST(losses_that_the_profiler_tells_are_kept)
{
    trace_nsys_file file;
    sqlite3 *db = make_two();
    run_sql(db, "CREATE TABLE DIAGNOSTIC_EVENT(timestamp, severity, text);"
                "INSERT INTO DIAGNOSTIC_EVENT VALUES(1,1,'all is well'),"
                "(2,2,'Number of CUDA events dropped: 17');");

    assert_ok(read_database(db, &file, NULL));

    assert_int_equal(file.recordings[0].loss_count, 1);
    assert_string_equal(file.recordings[0].loss, "Number of CUDA events dropped: 17");
}

TEST(a_table_or_column_that_is_missing_is_named)
{
    sqlite3 *db = make_two();
    run_sql(db, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid");
    assert_refused(db, STATUS_FORMAT,
                   "run: no such column: globalPid: record with `nsys profile -t cuda,nvtx` and "
                   "export with `nsys export --type sqlite`");
    db = make_two();
    run_sql(db, "DROP TABLE NVTX_EVENTS");
    assert_refused(db, STATUS_FORMAT,
                   "run: no such table: NVTX_EVENTS: record with `nsys profile -t cuda,nvtx` and "
                   "export with `nsys export --type sqlite`");
    db = make_two();
    run_sql(db, "DROP TABLE NVTX_EVENTS; CREATE VIEW NVTX_EVENTS AS SELECT 1 AS start, 2 AS end,"
                " 59 AS eventType, 'a' AS text, 0 AS globalTid");
    assert_refused(db, STATUS_FORMAT,
                   "run: access to view \"NVTX_EVENTS\" prohibited: record with `nsys profile -t "
                   "cuda,nvtx` and export with `nsys export --type sqlite`");
    db = make_two();
    run_sql(db, "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY");
    assert_refused(db, STATUS_INVALID,
                   "run: has no table CUPTI_ACTIVITY_KIND_KERNEL: no GPU did anything while it was "
                   "recorded, or `nsys profile -t cuda,nvtx` was not asked for cuda");
}

TEST(rows_that_cannot_be_are_refused)
{
    sqlite3 *db = make_two();
    put_kernel(db, 100, 1, 500, 400, 1);
    assert_refused(db, STATUS_FORMAT,
                   "run: CUPTI_ACTIVITY_KIND_KERNEL: row 8: end is before start");
    db = make_two();
    put_range(db, 200, 7, -5, 400, "PP:1F1");
    assert_refused(db, STATUS_FORMAT, "run: NVTX_EVENTS: row 9: start is negative");
    db = make_two();
    run_sql(db, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end='late' WHERE correlationId=4");
    assert_refused(db, STATUS_FORMAT,
                   "run: CUPTI_ACTIVITY_KIND_KERNEL: row 4: start or end is no integer");
    db = make_two();
    run_sql(db, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end=9223372036854775807 WHERE "
                "correlationId=4");
    assert_refused(db, STATUS_FORMAT,
                   "run: CUPTI_ACTIVITY_KIND_KERNEL: row 4: end is beyond 64 bits of ns");
}

TEST(ranges_that_nobody_knows_are_shown)
{
    sqlite3 *db = make_two();
    run_sql(db, "UPDATE NVTX_EVENTS SET text='block 1', textId=NULL");

    assert_refused(db, STATUS_INVALID,
                   "run: no annotation that dynmo knows; there are 'block 1': name them with "
                   "--phase-map FILE.json");
}

TEST(what_is_no_database_is_refused)
{
    trace_nsys_file file;
    const trace_profile_source text = {.path = "text",
                                       .bytes = "no database, but long enough to look "
                                                "like a header of one, or nearly so; "
                                                "and some more of it after that",
                                       .length = 100};
    const trace_profile_source absent = {.path = "absent.sqlite"};

    assert_fails(trace_nsys_read(&text, memory, &file, &why), STATUS_FORMAT,
                 "text: file is not a database");
    assert_fails(trace_nsys_read(&absent, memory, &file, &why), STATUS_IO,
                 "absent.sqlite: No such file or directory");
}

TEST(a_file_is_left_as_it_is_whatever_its_name)
{
    char folder[] = "nsys_test_XXXXXX";
    char path[64];
    trace_nsys_file file;
    sqlite3_int64 length = 0;
    int64_t bytes_before = 0;
    int64_t bytes_after = 0;
    uint64_t before = 0;
    uint64_t after = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a?b#c%%20.sqlite", folder);
    sqlite3 *db = make_two();
    unsigned char *bytes = sqlite3_serialize(db, "main", &length, 0);
    assert_ok(file_write(path, (const char *)bytes, (size_t)length, NULL));
    assert_ok(file_hash_path(path, &bytes_before, &before, NULL));
    const trace_profile_source source = {.path = path};

    const status result = trace_nsys_read(&source, memory, &file, &why);

    assert_ok(file_hash_path(path, &bytes_after, &after, NULL));
    unlink(path);
    assert_int_equal(rmdir(folder), 0); // nothing was left beside it
    if (result != STATUS_OK) fail_msg("%s", why.message);
    assert_true(before == after);
    assert_true(file.recordings[0].input.hash == before);
    assert_int_equal(file.recordings[0].input.bytes, length);
    sqlite3_free(bytes);
    sqlite3_close(db);
}

TEST(ranks_are_brought_together_across_files)
{
    sqlite3 *db = make_two();
    sqlite3_int64 length = 0;
    unsigned char *bytes = sqlite3_serialize(db, "main", &length, 0);
    const trace_profile_source one = {.path = "run", .bytes = bytes, .length = (size_t)length};
    const trace_profile_source twice[] = {one, one};
    trace_import import;

    require(trace_import_read(&one, 1, TRACE_PROFILER_NSYS, memory, &import, &why));
    assert_int_equal(import.rank_count, 2);
    assert_int_equal(import.layer_count, 2);
    assert_int_equal(import.op_count, 4);
    assert_string_equal(import.recorded_by, "NVIDIA Nsight Systems");
    assert_fails_naming(trace_import_read(twice, 2, TRACE_PROFILER_NSYS, memory, &import, &why),
                        STATUS_INVALID, "both ran F of layer 0, microbatch 0 in iteration 3");
    sqlite3_free(bytes);
    sqlite3_close(db);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
