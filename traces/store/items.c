#include "traces/store/items.h"

#include "base/arena.h"
#include "traces/store/sql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

struct trace_items {
    trace_store *store;
    trace_run *run;
    int64_t run_id;
    sqlite3_stmt *insert;
};

/// The one integer that a bound statement selects; 0 if it selects none. Finalizes it.
static status select_one(trace_store *store, sqlite3_stmt *statement, int64_t *value,
                         error_message *err)
{
    bool has_row = false;
    const status result = sql_step(store, statement, &has_row, err);
    if (result == STATUS_OK) *value = has_row ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_finalize(statement);
    return result;
}

status trace_items_find(trace_store *store, const char *identity, arena *memory, int64_t *run_id,
                        trace_run_info *info, error_message *err)
{
    sqlite3_stmt *statement = NULL;
    int64_t found = 0;
    TRY(sql_prepare(store, "SELECT max(run_id) AS run_id FROM item_run WHERE identity=?",
                    &statement, err));
    const status bound = sql_bind(store, statement, err, "t", identity);
    if (bound != STATUS_OK) {
        sqlite3_finalize(statement);
        return bound;
    }
    TRY(select_one(store, statement, &found, err));
    if (found > 0) TRY(trace_run_get(store, found, memory, info, err));
    *run_id = found;
    return STATUS_OK;
}

static void read_name(sqlite3_stmt *row, arena *memory, void *item)
{
    trace_items_name *name = item;
    name->run_id = sqlite3_column_int64(row, 0);
    name->identity = sql_text(row, 1, memory);
}

status trace_items_list(trace_store *store, const char *pattern, arena *memory,
                        trace_items_name **names, int *count, error_message *err)
{
    static const sql_select select = {
        .text = "SELECT max(run_id) AS run_id, identity FROM item_run WHERE identity GLOB ? "
                "GROUP BY identity ORDER BY 1",
        .read = read_name,
        .item_bytes = sizeof(trace_items_name)};
    return sql_rows(store, &select, memory, names, count, err, "t", pattern);
}

static status prepare(trace_items *items, error_message *err)
{
    items->run_id = trace_run_id(items->run);
    return sql_prepare(items->store, "INSERT OR REPLACE INTO item VALUES(?,?,?,?)", &items->insert,
                       err);
}

static trace_items *items_create(trace_store *store)
{
    trace_items *items = memory_array(1, sizeof *items);
    items->store = store;
    return items;
}

/// Ends a run that did not come to begin.
static status give_up(trace_items *items, status why, error_message *err)
{
    error_message own = {.code = why};
    if (err != NULL) own = *err;
    if (items->run != NULL) (void)trace_run_finish(items->run, &own, NULL);
    free(items);
    return why;
}

status trace_items_begin(trace_store *store, const trace_run_info *info, const char *identity,
                         const trace_input_file *files, int file_count, trace_items **items,
                         error_message *err)
{
    trace_items *begun = items_create(store);
    status result = trace_run_begin(store, info, files, file_count, &begun->run, err);
    if (result == STATUS_OK) result = prepare(begun, err);
    if (result == STATUS_OK) {
        result = sql_write_once(store, err, "INSERT INTO item_run VALUES(?,?)", "it", begun->run_id,
                                identity);
    }
    if (result == STATUS_OK) result = sql_batch_commit(store, err);
    if (result != STATUS_OK) return give_up(begun, result, err);
    *items = begun;
    return STATUS_OK;
}

status trace_items_resume(trace_store *store, int64_t run_id, trace_items **items,
                          error_message *err)
{
    trace_items *resumed = items_create(store);
    status result = trace_run_resume(store, run_id, &resumed->run, err);
    if (result == STATUS_OK) result = prepare(resumed, err);
    if (result != STATUS_OK) return give_up(resumed, result, err);
    *items = resumed;
    return STATUS_OK;
}

status trace_items_put(trace_items *items, int pass, int64_t item, const char *bytes, size_t length,
                       error_message *err)
{
    static const char none[] = "";
    trace_store *store = items->store;
    sqlite3_stmt *insert = items->insert;
    int code = sqlite3_bind_int64(insert, 1, items->run_id);
    if (code == SQLITE_OK) code = sqlite3_bind_int(insert, 2, pass);
    if (code == SQLITE_OK) code = sqlite3_bind_int64(insert, 3, item);
    if (code == SQLITE_OK) {
        code = sqlite3_bind_blob64(insert, 4, length > 0 ? bytes : none, length, SQLITE_STATIC);
    }
    return code == SQLITE_OK ? sql_write(store, insert, err) : sql_error(store, code, err);
}

status trace_items_read(trace_store *store, int64_t run_id, int pass, void *context,
                        status (*take)(void *context, int64_t item, const char *bytes,
                                       size_t length, error_message *err),
                        error_message *err)
{
    sqlite3_stmt *statement = NULL;
    bool has_row = true;
    TRY(sql_prepare(store, "SELECT item, result FROM item WHERE run_id=? AND pass=? ORDER BY item",
                    &statement, err));
    status result = sql_bind(store, statement, err, "ii", run_id, (int64_t)pass);
    if (result == STATUS_OK) result = sql_step(store, statement, &has_row, err);
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

status trace_items_copy(trace_store *from, int64_t run_id, trace_items *to, int64_t *count,
                        error_message *err)
{
    sqlite3_stmt *select = NULL;
    bool has_row = false;
    int64_t copied = 0;
    TRY(sql_query(from, "SELECT pass, item, result FROM item WHERE run_id=?", run_id, &select,
                  err));
    status result = sql_step(from, select, &has_row, err);
    while (result == STATUS_OK && has_row) {
        result = trace_items_put(to, sqlite3_column_int(select, 0), sqlite3_column_int64(select, 1),
                                 sqlite3_column_blob(select, 2),
                                 (size_t)sqlite3_column_bytes(select, 2), err);
        copied++;
        if (result == STATUS_OK) result = sql_step(from, select, &has_row, err);
    }
    sqlite3_finalize(select);
    if (count != NULL) *count = copied;
    return result;
}

int64_t trace_items_run_id(const trace_items *items)
{
    return items->run_id;
}

trace_run *trace_items_run(trace_items *items)
{
    return items->run;
}

status trace_items_finish(trace_items *items, const error_message *outcome, error_message *err)
{
    sqlite3_finalize(items->insert);
    const status result = trace_run_finish(items->run, outcome, err);
    free(items);
    return result;
}
