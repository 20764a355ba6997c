/// store: what a file must be to be opened, and what is left of it when a lock, a full disk, a
/// killed writer or a foreign file system gets in the way. SQLite is called here only to make such
/// files and such trouble.
#include "tests/traces/folder_store.h"
#include "traces/store/catalog.h"
#include "traces/store/reader.h"
#include "traces/store/runs.h"
#include "traces/store/sql.h"
#include "traces/store/store.h"
#include "traces/store/writer.h"

#include "base/file.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void assert_not_opened(trace_mode mode, status code, const char *reason)
{
    trace_store *store = NULL;
    char message[600];
    snprintf(message, sizeof message, "%s: %s", path, reason);
    assert_fails(trace_store_open(path, mode, &store, &why), code, message);
    assert_null(store);
}

/// Runs SQL on the file after the store's back.
static void sql(const char *text)
{
    sqlite3 *db = NULL;
    char *err = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &err) != SQLITE_OK) fail_msg("%s", err);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static bool exists(const char *suffix)
{
    char name[128];
    struct stat about;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return stat(name, &about) == 0;
}

static trace_writer *begin(trace_store *store, const char *name)
{
    trace_writer *writer = NULL;
    trace_info info = trace_info_default();
    info.name = name;
    require(trace_writer_begin(store, &info, &writer, &why));
    return writer;
}

/// Puts rows of ascending iterations until one fails or count are there.
static status put_rows(trace_writer *writer, int count, error_message *err)
{
    for (int iteration = 0; iteration < count; iteration++) {
        trace_load load = trace_load_init(iteration, 0, TRACE_MEAN);
        load.time_ns[TRACE_OP_FORWARD] = 1000000 + iteration;
        TRY(trace_writer_put_load(writer, &load, err));
    }
    return STATUS_OK;
}

static void put_trace(trace_store *store, const char *name, int row_count)
{
    trace_writer *writer = begin(store, name);
    require(put_rows(writer, row_count, &why));
    require(trace_writer_finish(writer, &why));
}

/// A store with one trace.
static void make_store(int row_count)
{
    trace_store *store = open_store(TRACE_WRITE);
    put_trace(store, "t", row_count);
    trace_store_close(store);
}

static trace_info only_trace(trace_store *store)
{
    trace_info *traces = NULL;
    int count = 0;
    require(trace_list(store, memory, &traces, &count, &why));
    assert_int_equal(count, 1);
    return traces[0];
}

IN_FOLDER(a_file_that_is_no_store_is_refused)
{
    assert_not_opened(TRACE_READ, STATUS_IO, "No such file or directory");
    assert_ok(file_write(path, "", 0, NULL));
    assert_not_opened(TRACE_READ, STATUS_FORMAT, "empty, not a store of dynmo");
    static const char words[] = "iteration,layer,phase,busy_ns\n0,0,F,1\n";
    assert_ok(file_write(path, words, strlen(words), NULL));
    assert_not_opened(TRACE_READ, STATUS_FORMAT, "not a SQLite file");
    assert_not_opened(TRACE_WRITE, STATUS_FORMAT, "not a SQLite file");
    char *bytes = NULL;
    size_t length = 0;
    assert_ok(file_read(path, 1000, &bytes, &length, NULL));
    assert_string_equal(bytes, words); // and left as it was
    free(bytes);
    unlink(path);
    sql("CREATE TABLE t(x)");
    assert_not_opened(TRACE_WRITE, STATUS_FORMAT,
                      "a SQLite file, but not a store of dynmo (application_id 0x00000000)");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_not_opened(TRACE_WRITE, STATUS_IO, "not a regular file");
    rmdir(path);
    snprintf(path, sizeof path, "%s/absent/s.db", folder);
    assert_not_opened(TRACE_WRITE, STATUS_IO, "cannot make it: No such file or directory");
}

IN_FOLDER(a_store_of_another_version_is_refused)
{
    make_store(1);
    sql("PRAGMA user_version=11");
    assert_not_opened(TRACE_READ, STATUS_UNSUPPORTED,
                      "store version 11 was made by a newer dynmo; this one reads version 10");
    sql("PRAGMA user_version=9");
    assert_not_opened(
        TRACE_WRITE, STATUS_UNSUPPORTED,
        "store version 9 was made by an older dynmo; this one reads version 10: import "
        "or record again");
}

IN_FOLDER(a_locked_store_says_so)
{
    char message[160];
    trace_store *store = open_store(TRACE_WRITE);
    put_trace(store, "t", 1);
    sqlite3 *other = NULL;
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    store->patience_ms = 20;
    sqlite3_busy_timeout(store->db, 20);
    trace_writer *writer = NULL;
    trace_info info = trace_info_default();
    info.name = "u";

    assert_int_equal(trace_writer_begin(store, &info, &writer, &why), STATUS_IO);

    snprintf(message, sizeof message, "%s: locked by another process (waited 20 ms)", path);
    assert_string_equal(why.message, message);
    assert_string_equal(only_trace(store).name, "t"); // readers do not wait
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    put_trace(store, "u", 1); // and the lock is all that was in the way
    trace_store_close(store);
}

/// Puts iterations of layer_count layers until a row fails.
static status put_layers(trace_writer *writer, int iteration_count, int layer_count,
                         error_message *err)
{
    for (int row = 0; row < iteration_count * layer_count; row++) {
        trace_load load = trace_load_init(row / layer_count, row % layer_count, TRACE_MEAN);
        load.time_ns[TRACE_OP_FORWARD] = 1;
        TRY(trace_writer_put_load(writer, &load, err));
    }
    return STATUS_OK;
}

/// Counts the rows of the only trace by SQL of its own.
static int count_rows(const char *condition)
{
    char text[160];
    sqlite3 *file = NULL;
    sqlite3_stmt *statement = NULL;
    snprintf(text, sizeof text, "SELECT coalesce(sum(row_count), 0) FROM loads WHERE %s",
             condition);
    assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(file, text, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const int count = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    assert_int_equal(sqlite3_close(file), SQLITE_OK);
    return count;
}

IN_FOLDER(what_is_kept_has_whole_iterations)
{
    enum { LAYERS = 7 };
    for (int row_count = 1; row_count <= 4 * LAYERS; row_count++) {
        trace_store *store = open_store(TRACE_WRITE);
        trace_writer *writer = begin(store, "t");
        const int whole = row_count / LAYERS;
        require(put_layers(writer, whole, LAYERS, &why));
        for (int layer = 0; layer < row_count % LAYERS; layer++) {
            trace_load load = trace_load_init(whole, layer, TRACE_MEAN);
            load.time_ns[TRACE_OP_FORWARD] = 1;
            require(trace_writer_put_load(writer, &load, &why));
        }
        if (whole > 0) {
            require(trace_writer_keep(writer, &why));
            assert_int_equal(only_trace(store).iteration_count, whole);
            assert_int_equal(only_trace(store).status, TRACE_COMPLETE);
        } else {
            trace_writer_abort(writer);
        }
        trace_store_close(store);
        if (whole > 0) assert_int_equal(count_rows("true"), whole * LAYERS);
        unlink(path);
    }
}

IN_FOLDER(the_systems_reason_for_a_failed_write_is_given)
{
    trace_store *whole = open_store(TRACE_WRITE);
    put_trace(whole, "t", 1);
    trace_store_close(whole);
    const pid_t child = fork();
    if (child == 0) {
        char message[160];
        trace_store *store = NULL;
        const struct rlimit limit = {1 << 18, 1 << 18};
        signal(SIGXFSZ, SIG_IGN);
        const bool opened = setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                            trace_store_open(path, TRACE_WRITE, &store, &why) == STATUS_OK;
        if (!opened) _exit(1);
        trace_writer *writer = begin(store, "large");
        if (put_rows(writer, 1000000, &why) != STATUS_IO) _exit(2);
        snprintf(message, sizeof message, "%s: File too large", path);
        _exit(strcmp(why.message, message) == 0 ? 0 : 3);
    }
    int ended = -1;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
}

IN_FOLDER(a_killed_writer_loses_nothing_committed_and_leaves_its_sign)
{
    int ready[2];
    char byte = 0;
    trace_store_close(open_store(TRACE_WRITE));
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        trace_store *store = open_store(TRACE_WRITE);
        const trace_run_info run_info = {.name = "r", .command_line = "dynmo run"};
        trace_run *run = NULL;
        if (trace_run_begin(store, &run_info, NULL, 0, &run, &why) != STATUS_OK) _exit(1);
        trace_writer *writer = begin(store, "t");
        if (put_rows(writer, 40000, &why) != STATUS_OK) _exit(1); // one batch of 32768, one begun
        if (write(ready[1], "x", 1) != 1) _exit(1);
        pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    trace_store *store = open_store(TRACE_READ);
    assert_int_equal(only_trace(store).status, TRACE_RUNNING);
    trace_store_close(store);

    assert_int_equal(kill(child, SIGKILL), 0);
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));

    store = open_store(TRACE_READ);
    trace_info info = only_trace(store);
    assert_int_equal(info.status, TRACE_INTERRUPTED);
    // At most a batch is lost; slow machines commit more often.
    assert_in_range(info.iteration_count, 40000 - 32768, 40000);
    assert_fails_naming(trace_find(store, "t", memory, &info, &why), STATUS_INVALID,
                        "trace 't' is not complete: its writer was interrupted");
    assert_int_equal(trace_find(store, NULL, memory, &info, &why), STATUS_INVALID);
    trace_run_info run;
    require(trace_run_find(store, "r", memory, &run, &why));
    assert_int_equal(run.status, TRACE_INTERRUPTED);
    trace_store_close(store);

    store = open_store(TRACE_WRITE); // marks it for good
    put_trace(store, "t", 3);        // and gives the name to the next import
    assert_int_equal(only_trace(store).iteration_count, 3);
    trace_store_close(store);
    close(ready[0]);
    close(ready[1]);
}

IN_FOLDER(writers_that_cannot_be_seen_from_here_stay_running)
{
    make_store(1);
    trace_store *store = NULL;
    static const struct {
        const char *change;
        trace_status expected;
    } cases[] = {
        {"host='elsewhere'", TRACE_RUNNING},
        {"host=substr(host, 1)", TRACE_RUNNING}, // this very process
        {"pid_namespace='pid:[1]'", TRACE_RUNNING},
        {"start_ticks=start_ticks-1", TRACE_INTERRUPTED}, // the id was given to another process
        {"boot='another'", TRACE_INTERRUPTED},
    };
    sql("INSERT INTO process SELECT 9, host, boot, pid_namespace, pid, start_ticks FROM process");
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        char text[256];
        snprintf(text, sizeof text,
                 "UPDATE trace SET status='running', process_id=1; DELETE FROM process WHERE"
                 " process_id=1; INSERT INTO process SELECT 1, host, boot, pid_namespace, pid,"
                 " start_ticks FROM process; UPDATE process SET %s WHERE process_id=1",
                 cases[at].change);
        sql(text);
        for (int mode = TRACE_READ; mode <= TRACE_WRITE; mode++) {
            store = open_store((trace_mode)mode);
            assert_int_equal(only_trace(store).status, cases[at].expected);
            trace_store_close(store);
        }
    }
}

IN_FOLDER(without_shared_memory_the_journal_is_a_rollback_journal)
{
    trace_store *store = open_store(TRACE_WRITE);
    assert_true(exists("-wal"));
    put_trace(store, "t", 1);
    trace_store_close(store);
    assert_false(exists("-wal")); // at rest the store is one file
    unlink(path);

    sqlite3_vfs *usual = sqlite3_vfs_find(NULL);
    sqlite3_vfs_register(sqlite3_vfs_find("unix-dotfile"), 1); // has no shared memory, as NFS
    store = open_store(TRACE_WRITE);
    assert_false(exists("-wal"));
    put_trace(store, "t", 5000);
    trace_store_close(store);
    store = open_store(TRACE_READ);
    assert_int_equal(only_trace(store).iteration_count, 5000);
    trace_store_close(store);
    sqlite3_vfs_register(usual, 1);
    rmdir(path);
}

/// As another user than root, who may write anywhere: what open says for a store in mode.
static int open_as_nobody(trace_mode mode, const char *wanted)
{
    enum { NOBODY = 65534 };
    int ended = -1;
    const pid_t child = fork();
    if (child == 0) {
        char message[400];
        trace_store *store = NULL;
        trace_writer *writer = NULL;
        trace_info info = trace_info_default();
        info.name = "u";
        if (geteuid() == 0 && setuid(NOBODY) != 0) _exit(1);
        status result = trace_store_open(path, mode, &store, &why);
        if (result == STATUS_OK && mode == TRACE_READ) {
            result = trace_find(store, "t", memory, &info, &why);
        } else if (result == STATUS_OK) {
            result = trace_writer_begin(store, &info, &writer, &why);
        }
        snprintf(message, sizeof message, "%s: %s", path, wanted);
        _exit(result == STATUS_OK ? wanted[0] != '\0' : strcmp(why.message, message) != 0);
    }
    return waitpid(child, &ended, 0) == child ? ended : -1;
}

static void set_writable(bool writable)
{
    chmod(folder, writable ? 0755 : 0555);
    chmod(path, writable ? 0644 : 0444);
}

IN_FOLDER(a_read_only_store_is_read_and_not_written)
{
    make_store(1);
    set_writable(false);

    assert_int_equal(open_as_nobody(TRACE_READ, ""), 0);
    assert_int_equal(open_as_nobody(TRACE_WRITE, "cannot write: the file is read-only here"), 0);
    set_writable(true);
    sql("PRAGMA journal_mode=WAL");
    set_writable(false);
    assert_int_equal(open_as_nobody(TRACE_READ,
                                    "was not closed by its last writer, and what that left cannot "
                                    "be tidied here: the file or its folder is read-only"),
                     0);
    set_writable(true);
    unlink(path);
    chmod(folder, 0555);
    assert_int_equal(open_as_nobody(TRACE_WRITE, "cannot make it: Permission denied"), 0);
    chmod(folder, 0755);
}

IN_FOLDER(what_holds_nothing_is_removed_again)
{
    trace_store *store = open_store(TRACE_WRITE);
    assert_true(exists(""));
    trace_writer_abort(begin(store, "t"));
    trace_store_close(store);
    assert_false(exists(""));
    assert_false(exists("-wal"));

    store = open_store(TRACE_WRITE);
    put_trace(store, "t", 1);
    trace_store_close(store);
    store = open_store(TRACE_WRITE); // was there before
    trace_store_close(store);
    assert_true(exists(""));
}

IN_FOLDER(a_corrupt_store_is_named)
{
    trace_store *store = NULL;
    make_store(5000);
    char *bytes = NULL;
    size_t length = 0;
    require(file_read(path, 1 << 24, &bytes, &length, &why));
    memset(bytes + 4096, 0xA5, length - 4096); // all but the schema's page
    unlink(path);
    require(file_write(path, bytes, length, &why));
    free(bytes);
    trace_info *traces = NULL;
    int count = 0;

    status result = trace_store_open(path, TRACE_READ, &store, &why);
    if (result == STATUS_OK) {
        result = trace_list(store, memory, &traces, &count, &why);
        trace_store_close(store);
    }

    assert_int_equal(result, STATUS_FORMAT);
    char message[200];
    snprintf(message, sizeof message, "%s: corrupt (database disk image is malformed)", path);
    assert_string_equal(why.message, message);
}

/// What reading the loads of trace 1 says, by the reader and by the means.
static void assert_rows_refused(const char *reason)
{
    char message[600];
    trace_reader *reader = NULL;
    trace_info info;
    bal_layer_costs costs;
    trace_loads loads;
    bool changed = false;
    snprintf(message, sizeof message, "%s: %s", path, reason);
    trace_store *store = open_store(TRACE_READ);
    status result = trace_reader_open(store, 1, TRACE_COLUMNS_RECORDED, memory, &reader, &why);
    if (result == STATUS_OK) result = trace_reader_costs_at(reader, 9, &costs, &changed, &why);
    assert_int_equal(result, STATUS_FORMAT);
    assert_string_equal(why.message, message);
    why = (error_message){0};
    result = trace_by_id(store, 1, memory, &info, &why);
    if (result != STATUS_OK || info.iteration_count > 0) {
        if (result == STATUS_OK) {
            result = trace_loads_mean(store, &info, 0, 9, memory, &loads, &why);
        }
        assert_int_equal(result, STATUS_FORMAT);
        assert_string_equal(why.message, message);
    }
    trace_store_close(store);
}

/// Replaces bytes of all blocks of loads. @param place of the first, from 1
static void set_block_bytes(int place, const char *hex)
{
    char text[200];
    snprintf(text, sizeof text,
             "UPDATE loads SET loads=CAST(substr(loads, 1, %d) || x'%s' || substr(loads, %d)"
             " AS BLOB)",
             place - 1, hex, place + (int)strlen(hex) / 2);
    sql(text);
}

IN_FOLDER(rows_that_no_writer_puts_are_refused)
{
    make_store(1);

    set_block_bytes(21, "0100000000002000"); // the smallest forward_ns: after two columns, a width
    assert_rows_refused("column forward_ns holds 9007199254740993, not a number in "
                        "[0, 9007199254740992]");
    set_block_bytes(21, "fbffffffffffffff");
    assert_rows_refused("column forward_ns holds -5, not a number in [0, 9007199254740992]");
    set_block_bytes(21, "0100000000000000");
    set_block_bytes(2, "0100000000000000"); // the smallest layer
    assert_rows_refused("table load: iteration 0 layer 1 microbatch -1: not possible in a trace of "
                        "1 layers and 1 microbatches");
    static const char corrupt[] =
        "corrupt: a block of loads or ops is not what a writer puts there";
    set_block_bytes(1, "09"); // the width of the first column
    assert_rows_refused(corrupt);
    set_block_bytes(1, "00");
    assert_rows_refused(corrupt);
    set_block_bytes(1, "01");
    sql("UPDATE loads SET row_count=2");
    assert_rows_refused(corrupt);
    sql("UPDATE loads SET row_count=1, loads=CAST(loads || x'00' AS BLOB)");
    assert_rows_refused(corrupt);
    sql("DELETE FROM loads");
    assert_rows_refused("trace 't' holds no sample");
}

IN_FOLDER(what_no_version_has_is_refused)
{
    static const char *const changes[] = {
        "CREATE VIEW v AS SELECT 1 AS x",
        "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM trace; END",
        "CREATE TABLE zoo(animal)",
        "DROP TABLE op_time",
        "ALTER TABLE loads ADD COLUMN more INTEGER",
        "CREATE INDEX i ON loads(row_count) WHERE row_count > 1",
        // Statistics are read while SQLite loads a schema: this expression runs for an hour.
        "ANALYZE;PRAGMA writable_schema=ON;UPDATE sqlite_schema SET sql='CREATE TABLE"
        " sqlite_stat1(tbl,idx,stat AS (instr(hex(zeroblob(4000000)),"
        "hex(zeroblob(2000000))||''1'')))' WHERE name='sqlite_stat1'",
        ("PRAGMA writable_schema=ON;INSERT INTO sqlite_schema "
         "VALUES('trigger','sqlite_stat1','run',"
         "0,'CREATE TRIGGER sqlite_stat1 AFTER INSERT ON run BEGIN DELETE FROM result; END')"),
    };
    for (size_t at = 0; at < sizeof changes / sizeof changes[0]; at++) {
        make_store(1);
        char reason[128];
        snprintf(reason, sizeof reason, "its schema is not that of store version %d",
                 SCHEMA_VERSION);
        sql(changes[at]);
        assert_not_opened(TRACE_READ, STATUS_FORMAT, reason);
        assert_not_opened(TRACE_WRITE, STATUS_FORMAT, reason);
        unlink(path);
    }
}

IN_FOLDER(statistics_of_another_program_are_let_be)
{
    make_store(1);

    sql("ANALYZE");

    trace_store_close(open_store(TRACE_READ));
    trace_store_close(open_store(TRACE_WRITE));
}

IN_FOLDER(words_that_no_writer_puts_are_refused)
{
    static const struct {
        const char *change;
        const char *reason;
    } cases[] = {
        {"name='a' || char(10) || 'rm -rf x'", "column name holds 'a\nrm -rf x', not a text of"},
        {"name='a' || char(27) || '[2J'", "not a text of one line"},
        {"name='t', tokens_per_microbatch=9223372036854775000",
         "column tokens_per_microbatch holds 9223372036854775000, not a number in"},
    };
    make_store(1);
    trace_store *store = NULL;
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        trace_info *traces = NULL;
        int count = 0;
        char text[256];
        snprintf(text, sizeof text, "UPDATE trace SET %s", cases[at].change);
        sql(text);
        store = open_store(TRACE_READ);
        assert_fails_naming(trace_list(store, memory, &traces, &count, &why), STATUS_FORMAT,
                            cases[at].reason);
        trace_store_close(store);
    }
    sql("UPDATE trace SET tokens_per_microbatch=1, device='a' || char(27) || 'b'");
    store = open_store(TRACE_READ);
    assert_string_equal(only_trace(store).device, "a?b");
    trace_store_close(store);
}

IN_FOLDER(a_name_is_a_path_and_no_uri)
{
    static const char *const names[] = {":memory:", "file:x?mode=memory"};
    for (size_t name = 0; name < 2; name++) {
        trace_store *store = NULL;
        require(trace_store_open(names[name], TRACE_WRITE, &store, &why));
        put_trace(store, "t", 1);
        trace_store_close(store);
        assert_int_equal(access(names[name], R_OK), 0);
        unlink(names[name]);
    }
}

IN_FOLDER(every_column_has_its_range)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int count = 0;
    make_store(1);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    static const char names[] = "SELECT DISTINCT c.name FROM sqlite_schema AS s,"
                                " pragma_table_info(s.name) AS c WHERE s.type='table'"
                                " AND s.name NOT LIKE 'sqlite_%'";
    assert_int_equal(sqlite3_prepare_v2(db, names, -1, &statement, NULL), SQLITE_OK);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 0);
        if (columns_range(name) == NULL) fail_msg("traces/store/columns.c lacks %s", name);
        count++;
    }
    sqlite3_finalize(statement);
    sqlite3_close(db);
    assert_true(count > 50);
}

IN_FOLDER(sums_that_do_not_fit_are_refused)
{
    char message[200];
    trace_loads loads;
    trace_store *store = open_store(TRACE_WRITE);
    trace_writer *writer = begin(store, "t");
    for (int iteration = 0; iteration < 600; iteration++) {
        trace_load load = trace_load_init(iteration, 0, TRACE_MEAN);
        load.time_ns[TRACE_OP_FORWARD] = TRACE_VALUE_MAX;
        require(trace_writer_put_load(writer, &load, &why));
    }
    require(trace_writer_finish(writer, &why));
    const trace_info info = only_trace(store);

    require(trace_loads_mean(store, &info, 0, 510, memory, &loads, &why));
    assert_true(loads.forward_ns[0] == TRACE_VALUE_MAX);
    assert_int_equal(trace_loads_mean(store, &info, 0, 599, memory, &loads, &why), STATUS_FORMAT);
    snprintf(message, sizeof message,
             "%s: trace 't' iteration 511 layer 0: the sum of its times exceeds 64 bits", path);
    assert_string_equal(why.message, message);
    trace_store_close(store);
}

IN_FOLDER(a_run_comes_back_as_it_was_put)
{
    trace_store *store = open_store(TRACE_WRITE);
    const trace_input_file input = {"study.json", 123, UINT64_C(0xfedcba9876543210)};
    const trace_run_info info = {.name = "study",
                                 .kind = TRACE_RUN_SIM,
                                 .command_line = "dynmo simulate study.json",
                                 .config_json = "{\"schema\":\"dynmo-study/1\"}",
                                 .seed = UINT64_MAX,
                                 .tool_version = "0.1.0"};
    trace_run *run = NULL;
    int64_t plan_id = 0;
    require(trace_run_begin(store, &info, &input, 1, &run, &why));
    require(trace_run_put_plan(run, "even", 0, "{\"first_layer\":[0,2]}", &plan_id, &why));
    const trace_run_iteration first = {.iteration = 0,
                                       .plan_id = plan_id,
                                       .iteration_ns = 9,
                                       .makespan_ns = 8,
                                       .span_ns = 7,
                                       .busy_ns = 6,
                                       .bubble_ratio = 0.1,
                                       .imbalance_ratio = 1.25,
                                       .changed = true,
                                       .rebalanced = true,
                                       .moved_layer_count = 2,
                                       .moved_bytes = 3,
                                       .migration_ns = 4};
    const trace_run_iteration second = {.iteration = 1, .iteration_ns = 10};
    require(trace_run_put(run, TRACE_RUN_ITERATIONS, "even", &first, &why));
    require(trace_run_put(run, TRACE_RUN_ITERATIONS, "tuned", &first, &why));
    require(trace_run_put(run, TRACE_RUN_ITERATIONS, "even", &second, &why));
    require(trace_run_put_result(run, "comparison", "[1,2]", &why));
    require(trace_run_finish(run, NULL, &why));
    trace_store_close(store);

    store = open_store(TRACE_READ);
    trace_run_info found;
    trace_input_file *files = NULL;
    const char **series = NULL;
    trace_run_iteration *iterations = NULL;
    trace_run_plan *plans = NULL;
    trace_run_result *results = NULL;
    int count = 0;
    require(trace_run_find(store, NULL, memory, &found, &why));
    assert_string_equal(found.config_json, info.config_json);
    assert_true(found.seed == UINT64_MAX);
    assert_int_equal(found.status, TRACE_COMPLETE);
    require(
        trace_run_rows(store, found.run_id, TRACE_RUN_INPUTS, NULL, memory, &files, &count, &why));
    assert_int_equal(count, 1);
    assert_true(files[0].hash == input.hash);
    require(
        trace_run_rows(store, found.run_id, TRACE_RUN_SERIES, NULL, memory, &series, &count, &why));
    assert_int_equal(count, 2);
    assert_string_equal(series[1], "tuned");
    require(trace_run_rows(store, found.run_id, TRACE_RUN_ITERATIONS, "even", memory, &iterations,
                           &count, &why));
    assert_int_equal(count, 2);
    assert_memory_equal(&iterations[0].iteration_ns, &first.iteration_ns, 4 * sizeof(int64_t));
    assert_true(iterations[0].bubble_ratio == 0.1 && iterations[0].rebalanced);
    assert_true(iterations[0].changed && !iterations[1].changed);
    assert_int_equal(iterations[0].plan_id, plan_id);
    assert_int_equal(iterations[1].plan_id, 0);
    require(
        trace_run_rows(store, found.run_id, TRACE_RUN_PLANS, NULL, memory, &plans, &count, &why));
    assert_int_equal(count, 1);
    assert_string_equal(plans[0].plan_json, "{\"first_layer\":[0,2]}");
    require(trace_run_rows(store, found.run_id, TRACE_RUN_RESULTS, NULL, memory, &results, &count,
                           &why));
    assert_int_equal(count, 1);
    assert_string_equal(results[0].label, "comparison");
    assert_fails_naming(trace_run_find(store, "nothing", memory, &found, &why), STATUS_INVALID,
                        ": no run 'nothing'");
    trace_store_close(store);
}

IN_FOLDER(decisions_work_and_op_times_come_back_as_they_were_put)
{
    trace_store *store = open_store(TRACE_WRITE);
    const trace_run_info info = {
        .name = "study", .kind = TRACE_RUN_SIM, .command_line = "dynmo simulate study.json"};
    const trace_run_decision moved = {.iteration = 3,
                                      .action = "rebalance",
                                      .reason = "change",
                                      .decision_ns = 1,
                                      .moved_layer_count = 2,
                                      .moved_bytes = 3,
                                      .migration_ns = 4};
    const trace_run_decision kept = {.iteration = 1, .action = "keep", .reason = "same"};
    const trace_run_work work = {.iteration = 2, .place = 1, .rank = 5, .work_ns = 77};
    const trace_run_op_time op_times[] = {
        {.iteration = 0, .kind = OP_FORWARD, .op_count = 4, .median_ns = 10, .travel_ns = -1},
        {.iteration = 3,
         .stage = 1,
         .kind = OP_BACKWARD_WEIGHT,
         .op_count = 4,
         .median_ns = 12,
         .awaited_count = 2,
         .travel_ns = 5},
    };
    trace_run *run = NULL;
    require(trace_run_begin(store, &info, NULL, 0, &run, &why));
    require(trace_run_put(run, TRACE_RUN_DECISIONS, "a", &moved, &why));
    require(trace_run_put(run, TRACE_RUN_DECISIONS, "a", &kept, &why));
    require(trace_run_put(run, TRACE_RUN_WORK, "a", &work, &why));
    require(trace_run_put(run, TRACE_RUN_OP_TIMES, "a", &op_times[0], &why));
    require(trace_run_put(run, TRACE_RUN_OP_TIMES, "a", &op_times[1], &why));
    require(trace_run_finish(run, NULL, &why));
    trace_store_close(store);

    store = open_store(TRACE_READ);
    trace_run_info found;
    trace_run_decision *decisions = NULL;
    trace_run_work *works = NULL;
    trace_run_op_time *times = NULL;
    int count = 0;
    require(trace_run_find(store, NULL, memory, &found, &why));
    require(trace_run_rows(store, found.run_id, TRACE_RUN_DECISIONS, "a", memory, &decisions,
                           &count, &why));
    assert_int_equal(count, 2);
    assert_int_equal(decisions[0].iteration, 1); // by iteration, however they were put
    assert_string_equal(decisions[1].action, "rebalance");
    assert_string_equal(decisions[1].reason, "change");
    assert_int_equal(decisions[1].moved_bytes, 3);
    assert_int_equal(decisions[1].migration_ns, 4);
    require(trace_run_rows(store, found.run_id, TRACE_RUN_WORK, "a", memory, &works, &count, &why));
    assert_int_equal(count, 1);
    assert_int_equal(works[0].rank, 5);
    assert_int_equal(works[0].work_ns, 77);
    require(
        trace_run_rows(store, found.run_id, TRACE_RUN_OP_TIMES, "a", memory, &times, &count, &why));
    assert_int_equal(count, 2);
    assert_memory_equal(times, op_times, sizeof op_times);
    require(trace_run_rows(store, found.run_id, TRACE_RUN_WORK, "b", memory, &works, &count, &why));
    assert_int_equal(count, 0);
    trace_store_close(store);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
