#include "traces/import/kineto.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "traces/import/kineto_collect.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SQL_BYTES = 1024, PROCESS_SHIFT = 24 };

/// What may have run; nsys makes a table only where something did.
static const struct {
    const char *name;
    bool is_named; // its rows have a name and a device
} works_tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL", true},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", false},
    {"CUPTI_ACTIVITY_KIND_MEMSET", false},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", false},
};
enum { WORKS_TABLES = sizeof works_tables / sizeof works_tables[0] };

typedef struct reader {
    const trace_profile_source *source;
    arena *memory; // of the recordings
    sqlite3 *db;
    bool has_works[WORKS_TABLES];
    bool has_strings;
    int64_t process; // that is read now
    bool is_unknown; // it has no annotation that is known
    trace_recording *recording;
    kineto_collector collector;
} reader;

static status database_error(const reader *reading, int code, error_message *err)
{
    const int kind = code & 0xff;
    if (kind == SQLITE_NOMEM) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    const status result = kind == SQLITE_CANTOPEN || kind == SQLITE_IOERR || kind == SQLITE_PERM
                              ? STATUS_IO
                              : STATUS_FORMAT;
    return error_set(err, result, "%s: %s", reading->source->path,
                     reading->db != NULL ? sqlite3_errmsg(reading->db) : sqlite3_errstr(code));
}

/// "file:<path>?immutable=1", with what would end the path escaped.
static char *uri_of(const char *path)
{
    static const char scheme[] = "file:";
    static const char options[] = "?mode=ro&immutable=1";
    static const char digits[] = "0123456789ABCDEF";
    char *uri = memory_array(1, strlen(path) * 3 + sizeof scheme + sizeof options);
    memcpy(uri, scheme, sizeof scheme - 1);
    char *at = uri + sizeof scheme - 1;
    for (; *path != '\0'; path++) {
        if (strchr("%?#", *path) != NULL) {
            *at++ = '%';
            *at++ = digits[(unsigned char)*path / 16];
            *at++ = digits[(unsigned char)*path % 16];
        } else {
            *at++ = *path;
        }
    }
    memcpy(at, options, sizeof options);
    return uri;
}

static status open_bytes(reader *reading, error_message *err)
{
    const size_t length = reading->source->length;
    const int code = sqlite3_open_v2(":memory:", &reading->db, SQLITE_OPEN_READWRITE, NULL);
    if (code != SQLITE_OK) return database_error(reading, code, err);
    unsigned char *copy = sqlite3_malloc64(length + 1);
    if (length > 0) memcpy(copy, reading->source->bytes, length);
    const int loaded = sqlite3_deserialize(
        reading->db, "main", copy, (sqlite3_int64)length, (sqlite3_int64)length + 1,
        SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
    return loaded == SQLITE_OK ? STATUS_OK : database_error(reading, loaded, err);
}

/// Looks before all of a file that may be large is read for its hash. An empty one is a database.
static status check_magic(const reader *reading, error_message *err)
{
    static const char magic[16] = "SQLite format 3";
    char head[sizeof magic];
    FILE *file = NULL;
    TRY(file_open(reading->source->path, &file, err));
    const size_t count = fread(head, 1, sizeof head, file);
    fclose(file);
    const bool is_other = count > 0 && (count < sizeof head || memcmp(head, magic, count) != 0);
    return is_other ? database_error(reading, SQLITE_NOTADB, err) : STATUS_OK;
}

static status open_path(reader *reading, error_message *err)
{
    const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE;
    int64_t bytes = 0;
    uint64_t hash = 0;
    TRY(check_magic(reading, err));
    TRY(file_hash_path(reading->source->path, &bytes, &hash, err)); // says why it cannot be read
    reading->recording->input.bytes = bytes;
    reading->recording->input.hash = hash;
    char *uri = uri_of(reading->source->path);
    const int code = sqlite3_open_v2(uri, &reading->db, flags, NULL);
    free(uri);
    return code == SQLITE_OK ? STATUS_OK : database_error(reading, code, err);
}

/// Opens the file so that nothing in it can run or write.
static status open_database(reader *reading, error_message *err)
{
    TRY(reading->source->bytes != NULL ? open_bytes(reading, err) : open_path(reading, err));
    sqlite3_db_config(reading->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(reading->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(reading->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    const int code = sqlite3_exec(reading->db,
                                  "PRAGMA query_only=ON;PRAGMA cell_size_check=ON;"
                                  "PRAGMA temp_store=MEMORY;SELECT count(*) FROM sqlite_schema",
                                  NULL, NULL, NULL);
    return code == SQLITE_OK ? STATUS_OK : database_error(reading, code, err);
}

/// What a version of nsys writes varies: SQLite names the table or column that is missing.
static status prepare(const reader *reading, const char *sql, sqlite3_stmt **statement,
                      error_message *err)
{
    const int code = sqlite3_prepare_v2(reading->db, sql, -1, statement, NULL);
    if (code == SQLITE_OK) return STATUS_OK;
    if (code != SQLITE_ERROR) return database_error(reading, code, err);
    return error_set(err, STATUS_FORMAT,
                     "%s: %s: record with `nsys profile -t cuda,nvtx` and export with `nsys export "
                     "--type sqlite`",
                     reading->source->path, sqlite3_errmsg(reading->db));
}

/// @param has_row out: false after the last
static status step(const reader *reading, sqlite3_stmt *statement, bool *has_row,
                   error_message *err)
{
    const int code = sqlite3_step(statement);
    *has_row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? STATUS_OK
                                                     : database_error(reading, code, err);
}

/// The first row of a query of tables that a file need not have. @return NULL: there is none
static sqlite3_stmt *optional_row(const reader *reading, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(reading->db, sql, -1, &statement, NULL) != SQLITE_OK) return NULL;
    if (sqlite3_step(statement) == SQLITE_ROW) return statement;
    sqlite3_finalize(statement);
    return NULL;
}

static bool has_table(const reader *reading, const char *name)
{
    char sql[SQL_BYTES];
    snprintf(sql, sizeof sql, "SELECT 1 FROM sqlite_schema WHERE type='table' AND name='%s'", name);
    sqlite3_stmt *found = optional_row(reading, sql);
    sqlite3_finalize(found);
    return found != NULL;
}

/// Looks up what the file has.
static status probe(reader *reading, error_message *err)
{
    bool has_any = false;
    for (int table = 0; table < WORKS_TABLES; table++) {
        reading->has_works[table] = has_table(reading, works_tables[table].name);
        has_any = has_any || reading->has_works[table];
    }
    reading->has_strings = has_table(reading, "StringIds");
    if (has_any) return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "%s: has no table CUPTI_ACTIVITY_KIND_KERNEL: no GPU did anything while it was "
        "recorded, or `nsys profile -t cuda,nvtx` was not asked for cuda",
        reading->source->path);
}

/// Columns 1 and 2 as begin and end.
static status read_interval(const reader *reading, sqlite3_stmt *statement, kineto_event *event,
                            error_message *err)
{
    if (sqlite3_column_type(statement, 1) != SQLITE_INTEGER ||
        sqlite3_column_type(statement, 2) != SQLITE_INTEGER) {
        return error_set(err, STATUS_FORMAT, "start or end is no integer");
    }
    event->begin_ns = sqlite3_column_int64(statement, 1);
    event->end_ns = sqlite3_column_int64(statement, 2);
    if (event->begin_ns < 0) return error_set(err, STATUS_FORMAT, "start is negative");
    if (event->end_ns < event->begin_ns) {
        return error_set(err, STATUS_FORMAT, "end is before start");
    }
    if (event->end_ns > INT64_MAX - reading->recording->base_ns) {
        return error_set(err, STATUS_FORMAT, "end is beyond 64 bits of ns");
    }
    return STATUS_OK;
}

static uint32_t correlation_of(sqlite3_stmt *statement, int column)
{
    const int64_t value = sqlite3_column_int64(statement, column);
    if (sqlite3_column_type(statement, column) != SQLITE_INTEGER || value < 0 ||
        value >= KINETO_NO_CORRELATION) {
        return KINETO_NO_CORRELATION;
    }
    return (uint32_t)value;
}

static kineto_thread thread_of(sqlite3_stmt *statement, int column)
{
    const uint64_t thread = (uint64_t)sqlite3_column_int64(statement, column);
    return (kineto_thread){thread >> PROCESS_SHIFT, thread};
}

/// The name without what emit_nvtx appends.
static void clean_name(const char *text, char name[KINETO_NAME_BYTES])
{
    static const char *const tails[] = {", seq = ", ", op_id = ", ", sizes = ["};
    snprintf(name, KINETO_NAME_BYTES, "%s", text);
    for (size_t tail = 0; tail < sizeof tails / sizeof tails[0]; tail++) {
        char *found = strstr(name, tails[tail]);
        if (found != NULL) *found = '\0';
    }
}

/// What emit_nvtx says of an operator: ", seq = 3" is the same of a forward and its backward.
static status read_link(reader *reading, const char *text, kineto_event link, error_message *err)
{
    static const char mark[] = ", seq = ";
    static const char autograd[] = "autograd::engine::evaluate_function";
    const char *found = strstr(text, mark);
    const bool is_backward = strncmp(text, autograd, sizeof autograd - 1) == 0;
    if (is_backward) {
        link.kind = KINETO_BACKWARD;
        TRY(kineto_collect(&reading->collector, &link, err));
    }
    if (found == NULL) return STATUS_OK;
    char *end = NULL;
    const unsigned long long number = strtoull(found + sizeof mark - 1, &end, 10);
    if (end == found + sizeof mark - 1 || number > UINT32_MAX) return STATUS_OK;
    link.kind = is_backward ? KINETO_TARGET : KINETO_SOURCE;
    link.number = (uint32_t)number;
    link.end_ns = 0;
    return kineto_collect(&reading->collector, &link, err);
}

static status read_range(reader *reading, sqlite3_stmt *statement, error_message *err)
{
    char name[KINETO_NAME_BYTES];
    kineto_event range = {
        .kind = KINETO_ANNOTATION, .name = name, .thread = thread_of(statement, 3)};
    const char *text = (const char *)sqlite3_column_text(statement, 4);
    if (sqlite3_column_type(statement, 2) == SQLITE_NULL || text == NULL) return STATUS_OK;
    TRY(read_interval(reading, statement, &range, err));
    clean_name(text, name);
    TRY(read_link(reading, text, range, err));
    return kineto_collect(&reading->collector, &range, err);
}

static status read_launch(reader *reading, sqlite3_stmt *statement, error_message *err)
{
    const kineto_event launch = {.kind = KINETO_LAUNCH,
                                 .thread = thread_of(statement, 3),
                                 .begin_ns = sqlite3_column_int64(statement, 1),
                                 .number = correlation_of(statement, 2)};
    if (launch.number == KINETO_NO_CORRELATION) return STATUS_OK;
    if (sqlite3_column_type(statement, 1) != SQLITE_INTEGER || launch.begin_ns < 0) {
        return error_set(err, STATUS_FORMAT, "start is no time");
    }
    return kineto_collect(&reading->collector, &launch, err);
}

static status read_work(reader *reading, sqlite3_stmt *statement, error_message *err)
{
    kineto_event work = {.kind = KINETO_WORK, .number = correlation_of(statement, 3)};
    const char *name = (const char *)sqlite3_column_text(statement, 4); // of kernels alone
    TRY(read_interval(reading, statement, &work, err));
    if (name != NULL && kineto_is_communication(name, strlen(name))) {
        work.flags = KINETO_COMMUNICATION;
    }
    return kineto_collect(&reading->collector, &work, err);
}

/// A row of a table of one kind. What stands in it is a matter of format; what is said of the file
/// names that already.
static status read_row(reader *reading, kineto_kind kind, const char *table,
                       sqlite3_stmt *statement, error_message *err)
{
    reading->recording->event_count++;
    const status result = kind == KINETO_WORK     ? read_work(reading, statement, err)
                          : kind == KINETO_LAUNCH ? read_launch(reading, statement, err)
                                                  : read_range(reading, statement, err);
    if (result != STATUS_FORMAT) return result;
    return error_prefix(err, result, "%s: %s: row %lld", reading->source->path, table,
                        (long long)sqlite3_column_int64(statement, 0));
}

/// The rows of one table that are of the process.
static status read_rows(reader *reading, kineto_kind kind, const char *table, const char *sql,
                        error_message *err)
{
    sqlite3_stmt *statement = NULL;
    bool has_row = true;
    TRY(prepare(reading, sql, &statement, err));
    sqlite3_bind_int64(statement, 1, reading->process);
    status result = step(reading, statement, &has_row, err);
    while (result == STATUS_OK && has_row) {
        result = read_row(reading, kind, table, statement, err);
        if (result == STATUS_OK) result = step(reading, statement, &has_row, err);
    }
    sqlite3_finalize(statement);
    return result;
}

/// Texts stand in the table itself or, in later versions, among the strings.
static status read_ranges(reader *reading, error_message *err)
{
    static const char plain[] = "SELECT rowid, start, end, globalTid, text FROM NVTX_EVENTS"
                                " WHERE eventType IN (59, 60) AND (globalTid >> 24) = ?1";
    static const char joined[] =
        "SELECT n.rowid, n.start, n.end, n.globalTid, coalesce(n.text, s.value) FROM NVTX_EVENTS n"
        " LEFT JOIN StringIds s ON s.id = n.textId"
        " WHERE n.eventType IN (59, 60) AND (n.globalTid >> 24) = ?1";
    sqlite3_stmt *statement = NULL;
    const bool has_ids = sqlite3_prepare_v2(reading->db, joined, -1, &statement, NULL) == SQLITE_OK;
    sqlite3_finalize(statement);
    return read_rows(reading, KINETO_ANNOTATION, "NVTX_EVENTS", has_ids ? joined : plain, err);
}

static status read_works(reader *reading, error_message *err)
{
    for (int table = 0; table < WORKS_TABLES; table++) {
        const char *name = works_tables[table].name;
        const bool is_named = works_tables[table].is_named && reading->has_strings;
        char sql[SQL_BYTES];
        if (!reading->has_works[table]) continue;
        snprintf(sql, sizeof sql,
                 "SELECT k.rowid, k.start, k.end, k.correlationId, %s FROM %s k %s"
                 "WHERE (k.globalPid >> 24) = ?1",
                 is_named ? "s.value" : "NULL", name,
                 is_named ? "LEFT JOIN StringIds s ON s.id = k.demangledName " : "");
        TRY(read_rows(reading, KINETO_WORK, name, sql, err));
    }
    return STATUS_OK;
}

/// What there is of the process, collected and summed.
static status collect_process(reader *reading, error_message *err)
{
    TRY(read_ranges(reading, err));
    if (reading->source->map == NULL && !kineto_collect_has_load(&reading->collector)) {
        const int64_t group = trace_kineto_layer_group(&reading->collector);
        if (group >= 0) TRY(trace_kineto_find_structure(&reading->collector, group, err));
    }
    const status known = kineto_collect_check(&reading->collector, err);
    reading->is_unknown = known != STATUS_OK;
    TRY(known);
    TRY(read_rows(reading, KINETO_LAUNCH, "CUPTI_ACTIVITY_KIND_RUNTIME",
                  "SELECT rowid, start, correlationId, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME "
                  "WHERE (globalTid >> 24) = ?1",
                  err));
    TRY(read_works(reading, err));
    reading->recording->on_device = true;
    return kineto_collect_sum(&reading->collector, err);
}

static status read_process(reader *reading, const trace_recording *file, int64_t process,
                           trace_recording *recording, error_message *err)
{
    const char *path = reading->source->path;
    trace_recording made = *file;
    reading->process = process;
    reading->is_unknown = false;
    reading->recording = &made;
    reading->collector = (kineto_collector){
        .map = reading->source->map,
        .recording = &made,
        .events = {.path = path, .memory = reading->memory, .scratch = arena_create(1 << 16)}};
    const status result = collect_process(reading, err);
    kineto_collector_free(&reading->collector);
    if (result == STATUS_OK) *recording = made;
    return result;
}

/// The beginning of the recording's clock, if the file says it.
static void read_base(const reader *reading, trace_recording *file)
{
    sqlite3_stmt *row =
        optional_row(reading, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1");
    const int64_t base_ns = row != NULL ? sqlite3_column_int64(row, 0) : 0;
    file->has_base = base_ns > 0;
    file->base_ns = base_ns > 0 ? base_ns : 0;
    sqlite3_finalize(row);
}

/// Whether nsys itself says that it lost events.
static void read_losses(const reader *reading, trace_recording *file)
{
    sqlite3_stmt *row = optional_row(
        reading, "SELECT count(*), min(text) FROM DIAGNOSTIC_EVENT WHERE text LIKE '%dropped%' OR "
                 "text LIKE '%lost%' OR text LIKE '%discard%' OR text LIKE '%not all%'");
    const char *text = row != NULL ? (const char *)sqlite3_column_text(row, 1) : NULL;
    if (text != NULL) {
        file->loss_count = sqlite3_column_int64(row, 0);
        snprintf(file->loss, sizeof file->loss, "%s", text);
        text_mask_control(file->loss, "");
    }
    sqlite3_finalize(row);
}

/// Appends one statement per table of device activity that the file has.
static void write_process_query(const reader *reading, char sql[SQL_BYTES])
{
    size_t used = (size_t)snprintf(sql, SQL_BYTES, "SELECT process, min(device) FROM (");
    bool is_first = true;
    for (int table = 0; table < WORKS_TABLES; table++) {
        if (!reading->has_works[table]) continue;
        used += (size_t)snprintf(sql + used, SQL_BYTES - used,
                                 "%sSELECT (globalPid >> 24) AS process, %s AS device FROM %s",
                                 is_first ? "" : " UNION ALL ",
                                 works_tables[table].is_named ? "deviceId" : "NULL",
                                 works_tables[table].name);
        is_first = false;
    }
    snprintf(sql + used, SQL_BYTES - used, ") GROUP BY process ORDER BY 2, 1");
}

/// Reads every process that used a device. One without annotations that are known is passed over,
/// unless none has any.
static status read_processes(reader *reading, const trace_recording *common, trace_nsys_file *file,
                             error_message *err)
{
    char sql[SQL_BYTES];
    sqlite3_stmt *statement = NULL;
    error_message unknown = {0};
    bool has_row = true;
    write_process_query(reading, sql);
    TRY(prepare(reading, sql, &statement, err));
    status result = STATUS_OK;
    while (result == STATUS_OK) {
        trace_recording recording;
        error_message reason = {0};
        result = step(reading, statement, &has_row, err);
        if (result != STATUS_OK || !has_row) break;
        const status read =
            read_process(reading, common, sqlite3_column_int64(statement, 0), &recording, &reason);
        if (read == STATUS_OK) {
            recording.rank = file->recording_count;
            file->recordings = arena_grow(reading->memory, file->recordings,
                                          (size_t)file->recording_count, sizeof *file->recordings);
            file->recordings[file->recording_count++] = recording;
        } else if (reading->is_unknown) {
            unknown = reason;
        } else {
            result = error_set(err, read, "%s", reason.message);
        }
    }
    sqlite3_finalize(statement);
    if (result != STATUS_OK || file->recording_count > 0) return result;
    if (unknown.code != STATUS_OK) return error_set(err, unknown.code, "%s", unknown.message);
    return error_set(err, STATUS_INVALID, "%s: no process used a device", reading->source->path);
}

status trace_nsys_read(const trace_profile_source *source, arena *memory, trace_nsys_file *file,
                       error_message *err)
{
    trace_recording common = {.world_size = TRACE_NOT_RECORDED};
    trace_nsys_file made = {0};
    reader reading = {.source = source, .memory = memory, .recording = &common};
    status result = open_database(&reading, err);
    if (result == STATUS_OK) result = probe(&reading, err);
    if (result == STATUS_OK) {
        read_base(&reading, &common);
        read_losses(&reading, &common);
        result = read_processes(&reading, &common, &made, err);
    }
    sqlite3_close(reading.db);
    if (result == STATUS_OK) *file = made;
    return result;
}
