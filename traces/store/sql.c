#include "traces/store/sql.h"

#include "base/text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
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

/// Prepares and binds.
static status open_query(trace_store *store, sqlite3_stmt **statement, error_message *err,
                         const char *text, const char *types, va_list values)
{
    TRY(sql_prepare(store, text, statement, err));
    const int code = bind_all(*statement, types, values);
    if (code == SQLITE_OK) return STATUS_OK;
    const status failed = sql_error(store, code, err);
    sqlite3_finalize(*statement);
    *statement = NULL;
    return failed;
}

status sql_query(trace_store *store, sqlite3_stmt **statement, error_message *err, const char *text,
                 const char *types, ...)
{
    va_list values;
    va_start(values, types);
    const status result = open_query(store, statement, err, text, types, values);
    va_end(values);
    return result;
}

status sql_get(trace_store *store, int64_t *value, error_message *err, const char *text,
               const char *types, ...)
{
    sqlite3_stmt *statement = NULL;
    bool has_row = false;
    va_list values;
    va_start(values, types);
    status result = open_query(store, &statement, err, text, types, values);
    va_end(values);
    if (result == STATUS_OK) result = sql_step(store, statement, &has_row, err);
    if (has_row && sqlite3_column_type(statement, 0) != SQLITE_NULL) {
        *value = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
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
    va_list values;
    va_start(values, types);
    status result = open_query(store, &statement, err, text, types, values);
    va_end(values);
    if (result == STATUS_OK) result = sql_write(store, statement, err);
    sqlite3_finalize(statement);
    return result;
}

static const char *read_text(sqlite3_stmt *statement, int column, arena *memory)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    char *copy = text != NULL ? arena_string(memory, text) : NULL;
    if (copy != NULL) text_mask_control(copy, "\n\t");
    return copy;
}

static int read_word(sqlite3_stmt *row, int column, const sql_field *field)
{
    const char *word = (const char *)sqlite3_column_text(row, column);
    for (int index = 0; index < field->word_count && word != NULL; index++) {
        if (strcmp(word, field->words[index]) == 0) return index;
    }
    return 0;
}

static void read_field(sqlite3_stmt *row, int column, const sql_field *field, arena *memory,
                       void *item)
{
    void *at = (char *)item + field->offset;
    const bool is_null = sqlite3_column_type(row, column) == SQLITE_NULL;
    const int64_t number = sqlite3_column_int64(row, column); // 0 where it is NULL
    const char *text = NULL;
    switch (field->type) {
    case SQL_INT:
        *(int *)at = (int)number;
        break;
    case SQL_LONG:
    case SQL_ID:
        *(int64_t *)at = number;
        break;
    case SQL_OPTIONAL:
        *(int64_t *)at = is_null ? -1 : number;
        break;
    case SQL_REAL:
        *(double *)at = is_null ? -1 : sqlite3_column_double(row, column);
        break;
    case SQL_FLAG:
        *(bool *)at = number != 0;
        break;
    case SQL_TEXT:
        *(const char **)at = read_text(row, column, memory);
        break;
    case SQL_HASH:
        text = (const char *)sqlite3_column_text(row, column);
        *(uint64_t *)at = text != NULL ? strtoull(text, NULL, 16) : 0;
        break;
    case SQL_WORD:
        *(int *)at = read_word(row, column, field);
        break;
    }
}

static int bind_field(sqlite3_stmt *statement, int place, const sql_field *field, const void *item)
{
    const void *at = (const char *)item + field->offset;
    switch (field->type) {
    case SQL_INT:
        return sqlite3_bind_int(statement, place, *(const int *)at);
    case SQL_FLAG:
        return sqlite3_bind_int(statement, place, *(const bool *)at);
    case SQL_REAL:
        return sqlite3_bind_double(statement, place, *(const double *)at);
    case SQL_TEXT:
        return sqlite3_bind_text(statement, place, *(const char *const *)at, -1, SQLITE_STATIC);
    case SQL_WORD:
        return sqlite3_bind_text(statement, place, field->words[*(const int *)at], -1,
                                 SQLITE_STATIC);
    default:
        break;
    }
    const int64_t value = *(const int64_t *)at;
    const bool is_null = field->type == SQL_ID ? value == 0 : value < 0;
    return is_null && field->type != SQL_LONG ? sqlite3_bind_null(statement, place)
                                              : sqlite3_bind_int64(statement, place, value);
}

static status read_all(trace_store *store, sqlite3_stmt *statement, const sql_record *record,
                       arena *memory, void **items, int *count, error_message *err)
{
    for (bool has_row = true;; ++*count) {
        TRY(sql_step(store, statement, &has_row, err));
        if (!has_row) return STATUS_OK;
        *items = arena_grow(memory, *items, (size_t)*count, record->bytes);
        void *item = (char *)*items + (size_t)*count * record->bytes;
        for (int field = 0; field < record->field_count; field++) {
            read_field(statement, field, &record->fields[field], memory, item);
        }
    }
}

status sql_rows(trace_store *store, const sql_record *record, const char *from, arena *memory,
                void *items, int *count, error_message *err, const char *types, ...)
{
    sqlite3_stmt *statement = NULL;
    void *found = NULL;
    int found_count = 0;
    text_buffer text = {0};
    va_list values;
    for (int field = 0; field < record->field_count; field++) {
        text_format(&text, "%s%s", field == 0 ? "SELECT " : ", ", record->fields[field].column);
    }
    text_append(&text, from);
    va_start(values, types);
    status result = open_query(store, &statement, err, text.bytes, types, values);
    va_end(values);
    text_free(&text);
    if (result == STATUS_OK) {
        result = read_all(store, statement, record, memory, &found, &found_count, err);
    }
    sqlite3_finalize(statement);
    TRY(result);
    memcpy(items, &found, sizeof found);
    *count = found_count;
    return STATUS_OK;
}

status sql_prepare_insert(trace_store *store, const char *table, const sql_record *record,
                          sqlite3_stmt **statement, error_message *err)
{
    text_buffer text = {0};
    text_format(&text, "INSERT INTO %s VALUES(?", table);
    for (int field = 0; field < record->field_count; field++) {
        text_append(&text, ",?");
    }
    text_append(&text, ")");
    const status result = sql_prepare(store, text.bytes, statement, err);
    text_free(&text);
    return result;
}

status sql_insert(trace_store *store, sqlite3_stmt *statement, int64_t id, const sql_record *record,
                  const void *item, error_message *err)
{
    int code = sqlite3_bind_int64(statement, 1, id);
    for (int field = 0; field < record->field_count && code == SQLITE_OK; field++) {
        code = bind_field(statement, field + 2, &record->fields[field], item);
    }
    return code == SQLITE_OK ? sql_write(store, statement, err) : sql_error(store, code, err);
}

static const sql_field text_field = {"text", 0, SQL_TEXT, NULL, 0};
const sql_record sql_text_record = {&text_field, 1, sizeof(const char *)};

const sql_field sql_input_fields[SQL_INPUT_FIELDS] = {
    SQL_FIELD(trace_input_file, path, SQL_TEXT),
    SQL_FIELD(trace_input_file, bytes, SQL_LONG),
    SQL_FIELD(trace_input_file, hash, SQL_HASH),
};

status sql_put_input(trace_store *store, const char *text, int64_t id, int place,
                     const trace_input_file *file, error_message *err)
{
    char hash[17];
    snprintf(hash, sizeof hash, "%016" PRIx64, file->hash);
    return sql_write_once(store, err, text, "iitit", id, (int64_t)place, file->path, file->bytes,
                          hash);
}

void sql_now(char out[32])
{
    struct tm utc;
    const time_t now = time(NULL);
    gmtime_r(&now, &utc);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}
