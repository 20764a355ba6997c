#include "traces/store/sql.h"

#include "traces/store/columns.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/// To a few milliseconds: it is asked for every row.
static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/// The reason of the operating system if it is known, else SQLite's own words. SQLite keeps none
/// where a commit fails (3.40); errno, which sql_run and sql_step clear, still has it then, unless
/// a later call of the rollback failed as well: only what a write can fail with is believed.
static const char *system_reason(trace_store *store, int errno_now)
{
    static const int write_reasons[] = {EFBIG, EDQUOT, EIO, ENOSPC, EROFS, ESTALE};
    const int reason = sqlite3_system_errno(store->db);
    if (reason != 0) return strerror(reason);
    for (size_t at = 0; at < sizeof write_reasons / sizeof write_reasons[0]; at++) {
        if (errno_now == write_reasons[at]) return strerror(errno_now);
    }
    return sqlite3_errmsg(store->db);
}

status sql_error(trace_store *store, int code, error_message *err)
{
    const int errno_now = errno;
    const char *path = store->path;
    // All that is checked is JSON of this program, and without memory SQLite finds it to be none.
    if (code == SQLITE_CONSTRAINT_CHECK) code = SQLITE_NOMEM;
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(err, STATUS_IO, "%s: locked by another process (waited %d ms)", path,
                         store->patience_ms);
    case SQLITE_FULL:
        return error_set(err, STATUS_IO, "%s: cannot grow: disk or quota full", path);
    case SQLITE_READONLY:
        if (code == SQLITE_READONLY_DBMOVED) {
            return error_set(err, STATUS_IO, "%s: was moved or removed while it was open", path);
        }
        if (store->mode == TRACE_READ) {
            return error_set(err, STATUS_IO,
                             "%s: was not closed by its last writer, and what that left cannot be "
                             "tidied here: the file or its folder is read-only",
                             path);
        }
        return error_set(err, STATUS_IO, "%s: cannot write: the file is read-only here", path);
    case SQLITE_CANTOPEN:
        return error_set(err, STATUS_IO, "%s: cannot open: %s", path,
                         system_reason(store, errno_now));
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_PROTOCOL:
    case SQLITE_NOLFS:
    case SQLITE_IOERR:
        if (code == SQLITE_IOERR_NOMEM) break;
        return error_set(err, STATUS_IO, "%s: %s", path, system_reason(store, errno_now));
    case SQLITE_NOTADB:
        return error_set(err, STATUS_FORMAT, "%s: not a SQLite file", path);
    case SQLITE_CORRUPT:
        return error_set(err, STATUS_FORMAT, "%s: corrupt (%s)", path, sqlite3_errmsg(store->db));
    case SQLITE_NOMEM:
        break;
    default:
        return error_set(err, STATUS_FORMAT, "%s: %s", path, sqlite3_errmsg(store->db));
    }
    return error_set(err, STATUS_NO_MEMORY, "%s: SQLite is out of memory", path);
}

status sql_run(trace_store *store, const char *text, error_message *err)
{
    errno = 0;
    const int code = sqlite3_exec(store->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? STATUS_OK : sql_error(store, code, err);
}

status sql_prepare(trace_store *store, const char *text, sqlite3_stmt **statement,
                   error_message *err)
{
    store->checked = NULL; // the new one may stand where that did
    const int code =
        sqlite3_prepare_v3(store->db, text, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
    return code == SQLITE_OK ? STATUS_OK : sql_error(store, code, err);
}

static int bind_all(sqlite3_stmt *statement, const char *types, va_list values)
{
    assert(sqlite3_bind_parameter_count(statement) == (int)strlen(types));
    int code = SQLITE_OK;
    for (int at = 0; types[at] != '\0' && code == SQLITE_OK; at++) {
        if (types[at] == 't') {
            const char *text = va_arg(values, const char *);
            code = text != NULL ? sqlite3_bind_text(statement, at + 1, text, -1, SQLITE_STATIC)
                                : sqlite3_bind_null(statement, at + 1);
        } else if (types[at] == 'v') {
            const void *bytes = va_arg(values, const void *);
            const size_t length = va_arg(values, size_t);
            code = sqlite3_bind_blob64(statement, at + 1, bytes, length, SQLITE_STATIC);
        } else if (types[at] == 'd') {
            code = sqlite3_bind_double(statement, at + 1, va_arg(values, double));
        } else if (types[at] == 'b') {
            code = sqlite3_bind_int(statement, at + 1, va_arg(values, int) != 0);
        } else {
            assert(types[at] == 'i' || types[at] == 'n');
            const int64_t value = va_arg(values, int64_t);
            code = types[at] == 'n' && value < 0 ? sqlite3_bind_null(statement, at + 1)
                                                 : sqlite3_bind_int64(statement, at + 1, value);
        }
    }
    return code;
}

status sql_bind(trace_store *store, sqlite3_stmt *statement, error_message *err, const char *types,
                ...)
{
    va_list values;
    va_start(values, types);
    const int code = bind_all(statement, types, values);
    va_end(values);
    return code == SQLITE_OK ? STATUS_OK : sql_error(store, code, err);
}

status sql_query(trace_store *store, const char *text, int64_t id, sqlite3_stmt **statement,
                 error_message *err)
{
    TRY(sql_prepare(store, text, statement, err));
    const status result = sql_bind(store, *statement, err, "i", id);
    if (result != STATUS_OK) {
        sqlite3_finalize(*statement);
        *statement = NULL;
    }
    return result;
}

status sql_step(trace_store *store, sqlite3_stmt *statement, bool *has_row, error_message *err)
{
    errno = 0;
    const int code = sqlite3_step(statement);
    *has_row = code == SQLITE_ROW;
    status result = STATUS_OK;
    if (code == SQLITE_ROW) {
        result = columns_check_row(store, statement, err);
        if (result == STATUS_OK) return STATUS_OK;
        *has_row = false;
    } else if (code != SQLITE_DONE) {
        result = sql_error(store, code, err);
    }
    sqlite3_reset(statement);
    return result;
}

status sql_batch_begin(trace_store *store, error_message *err)
{
    if (store->in_batch) return STATUS_OK;
    TRY(sql_run(store, "BEGIN IMMEDIATE", err));
    store->in_batch = true;
    store->batch_rows = 0;
    store->batch_begin_ns = monotonic_ns();
    return STATUS_OK;
}

status sql_batch_commit(trace_store *store, error_message *err)
{
    if (!store->in_batch) return STATUS_OK;
    const status result = sql_run(store, "COMMIT", err);
    store->in_batch = sqlite3_get_autocommit(store->db) == 0;
    return result;
}

bool sql_is_due(trace_store *store, int row_max)
{
    const int64_t batch_ns_max = 1000000000;
    const int64_t pause_ns = 100000000; // after one, the next may be as long
    const int64_t now_ns = monotonic_ns();
    const bool paused = now_ns - store->last_write_ns >= pause_ns;
    store->last_write_ns = now_ns;
    return paused || ++store->batch_rows >= row_max ||
           now_ns - store->batch_begin_ns >= batch_ns_max;
}

status sql_batch_put(trace_store *store, sqlite3_stmt *statement, error_message *err)
{
    TRY(sql_batch_begin(store, err));
    bool has_row = false;
    const status result = sql_step(store, statement, &has_row, err);
    // A full disk rolls the whole transaction back.
    if (result != STATUS_OK) store->in_batch = sqlite3_get_autocommit(store->db) == 0;
    assert(result != STATUS_OK || !has_row);
    return result;
}

status sql_write(trace_store *store, sqlite3_stmt *statement, error_message *err)
{
    TRY(sql_batch_put(store, statement, err));
    return sql_is_due(store, SQL_BATCH_ROWS) ? sql_batch_commit(store, err) : STATUS_OK;
}

status sql_write_once(trace_store *store, error_message *err, const char *text, const char *types,
                      ...)
{
    sqlite3_stmt *statement = NULL;
    TRY(sql_prepare(store, text, &statement, err));
    va_list values;
    va_start(values, types);
    const int code = bind_all(statement, types, values);
    va_end(values);
    const status result =
        code == SQLITE_OK ? sql_write(store, statement, err) : sql_error(store, code, err);
    sqlite3_finalize(statement);
    return result;
}

int64_t sql_int64(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL
               ? -1
               : sqlite3_column_int64(statement, column);
}

trace_status sql_status(sqlite3_stmt *statement, int column)
{
    const char *word = (const char *)sqlite3_column_text(statement, column);
    for (int value = 0; value < TRACE_STATUS_COUNT && word != NULL; value++) {
        if (strcmp(word, trace_status_name((trace_status)value)) == 0) return (trace_status)value;
    }
    return TRACE_INTERRUPTED; // a CHECK keeps other words out
}

const char *sql_text(sqlite3_stmt *statement, int column, arena *memory)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    char *copy = text != NULL ? arena_string(memory, text) : NULL;
    for (char *c = copy; c != NULL && *c != '\0'; c++) {
        const bool is_control = (unsigned char)*c < ' ' || *c == 0x7f;
        if (is_control && *c != '\n' && *c != '\t') *c = '?';
    }
    return copy;
}

void sql_grow(arena *memory, void **items, int count, int *capacity, size_t item_bytes)
{
    if (count < *capacity) return;
    *capacity = *capacity > 0 ? 2 * *capacity : 16;
    void *moved = arena_array(memory, (size_t)*capacity, item_bytes);
    if (count > 0) memcpy(moved, *items, (size_t)count * item_bytes);
    *items = moved;
}

static status read_all(trace_store *store, sqlite3_stmt *statement, const sql_select *select,
                       arena *memory, void **items, int *count, error_message *err)
{
    int capacity = 0;
    for (bool has_row = true;; ++*count) {
        TRY(sql_step(store, statement, &has_row, err));
        if (!has_row) return STATUS_OK;
        sql_grow(memory, items, *count, &capacity, select->item_bytes);
        select->read(statement, memory, (char *)*items + (size_t)*count * select->item_bytes);
    }
}

status sql_rows(trace_store *store, const sql_select *select, arena *memory, void *items,
                int *count, error_message *err, const char *types, ...)
{
    sqlite3_stmt *statement = NULL;
    void *found = NULL;
    int found_count = 0;
    TRY(sql_prepare(store, select->text, &statement, err));
    va_list values;
    va_start(values, types);
    const int code = bind_all(statement, types, values);
    va_end(values);
    const status result =
        code == SQLITE_OK ? read_all(store, statement, select, memory, &found, &found_count, err)
                          : sql_error(store, code, err);
    sqlite3_finalize(statement);
    TRY(result);
    memcpy(items, &found, sizeof found);
    *count = found_count;
    return STATUS_OK;
}

void sql_read_input_file(sqlite3_stmt *row, arena *memory, void *item)
{
    const char *hash = (const char *)sqlite3_column_text(row, 2);
    *(trace_input_file *)item = (trace_input_file){
        .path = sql_text(row, 0, memory),
        .bytes = sqlite3_column_int64(row, 1),
        .hash = hash != NULL ? strtoull(hash, NULL, 16) : 0,
    };
}

void sql_now(char out[32])
{
    struct tm utc;
    const time_t now = time(NULL);
    gmtime_r(&now, &utc);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}
