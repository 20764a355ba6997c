#include "traces/store/items.h"

#include "base/arena.h"
#include "traces/store/sql.h"

static const sql_field name_fields[] = {
    SQL_FIELD_AS(trace_items_name, run_id, SQL_LONG, "max(run_id) AS run_id"),
    SQL_FIELD(trace_items_name, identity, SQL_TEXT),
};
static const sql_record of_name = SQL_RECORD(trace_items_name, name_fields);

status trace_items_find(trace_store *store, const char *identity, arena *memory, int64_t *run_id,
                        trace_run_info *info, error_message *err)
{
    *run_id = 0;
    TRY(sql_get(store, run_id, err, "SELECT max(run_id) AS run_id FROM item_run WHERE identity=?",
                "t", identity));
    return *run_id > 0 ? trace_run_get(store, *run_id, memory, info, err) : STATUS_OK;
}

status trace_items_list(trace_store *store, const char *pattern, arena *memory,
                        trace_items_name **names, int *count, error_message *err)
{
    return sql_rows(store, &of_name,
                    " FROM item_run WHERE identity GLOB ? GROUP BY identity"
                    " ORDER BY 1",
                    memory, names, count, err, "t", pattern);
}

status trace_items_begin(trace_store *store, const trace_run_info *info, const char *identity,
                         const trace_input_file *files, int file_count, trace_run **run,
                         error_message *err)
{
    trace_run *begun = NULL;
    TRY(trace_run_begin(store, info, files, file_count, &begun, err));
    status result = sql_write_once(store, err, "INSERT INTO item_run VALUES(?,?)", "it",
                                   trace_run_id(begun), identity);
    if (result == STATUS_OK) result = sql_batch_commit(store, err);
    if (result != STATUS_OK) {
        (void)trace_run_finish(begun, err != NULL ? err : &(error_message){.code = result}, NULL);
        return result;
    }
    *run = begun;
    return STATUS_OK;
}

status trace_items_read(trace_store *store, int64_t run_id, int pass, void *context,
                        status (*take)(void *context, int64_t item, const char *bytes,
                                       size_t length, error_message *err),
                        error_message *err)
{
    sqlite3_stmt *statement = NULL;
    bool has_row = true;
    TRY(sql_query(store, &statement, err,
                  "SELECT item, result FROM item WHERE run_id=? AND pass=? ORDER BY item", "ii",
                  run_id, (int64_t)pass));
    status result = sql_step(store, statement, &has_row, err);
    while (result == STATUS_OK && has_row) {
        // As text, SQLite puts a zero after the bytes.
        const char *bytes = (const char *)sqlite3_column_text(statement, 1);
        const size_t length = (size_t)sqlite3_column_bytes(statement, 1);
        result = bytes == NULL
                     ? sql_error(store, SQLITE_NOMEM, err)
                     : take(context, sqlite3_column_int64(statement, 0), bytes, length, err);
        if (result == STATUS_OK) result = sql_step(store, statement, &has_row, err);
    }
    sqlite3_finalize(statement);
    return result;
}

status trace_items_copy(trace_store *from, int64_t run_id, trace_run *to, int64_t *count,
                        error_message *err)
{
    sqlite3_stmt *select = NULL;
    bool has_row = false;
    int64_t copied = 0;
    TRY(sql_query(from, &select, err, "SELECT pass, item, result FROM item WHERE run_id=?", "i",
                  run_id));
    status result = sql_step(from, select, &has_row, err);
    while (result == STATUS_OK && has_row) {
        result = trace_run_put_item(to, sqlite3_column_int(select, 0),
                                    sqlite3_column_int64(select, 1), sqlite3_column_blob(select, 2),
                                    (size_t)sqlite3_column_bytes(select, 2), err);
        copied++;
        if (result == STATUS_OK) result = sql_step(from, select, &has_row, err);
    }
    sqlite3_finalize(select);
    if (count != NULL) *count = copied;
    return result;
}
