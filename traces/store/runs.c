#include "traces/store/runs.h"

#include "base/arena.h"
#include "base/text.h"
#include "traces/store/sql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const trace_run_kind_names[TRACE_RUN_KIND_COUNT] = {"sim", "exec", "import"};

/// The words of op kinds in the store.
static const char *const kind_words[OP_KIND_COUNT] = {
    [OP_FORWARD] = "F",
    [OP_BACKWARD_INPUT] = "B",
    [OP_BACKWARD_WEIGHT] = "W",
    [OP_BACKWARD] = "BW",
};

#define COUNT_OF(rows) "(SELECT count(*) FROM " rows ".run_id=run.run_id)"
static const sql_field run_fields[] = {
    SQL_FIELD(trace_run_info, run_id, SQL_LONG),
    {SQL_STATUS, offsetof(trace_run_info, status), SQL_WORD, trace_status_names,
     TRACE_STATUS_COUNT},
    SQL_FIELD(trace_run_info, name, SQL_TEXT),
    {"kind", offsetof(trace_run_info, kind), SQL_WORD, trace_run_kind_names, TRACE_RUN_KIND_COUNT},
    SQL_FIELD(trace_run_info, command_line, SQL_TEXT),
    SQL_FIELD(trace_run_info, config_json, SQL_TEXT),
    SQL_FIELD(trace_run_info, seed, SQL_LONG),
    SQL_FIELD(trace_run_info, tool_version, SQL_TEXT),
    SQL_FIELD(trace_run_info, host, SQL_TEXT),
    SQL_FIELD(trace_run_info, started_at, SQL_TEXT),
    SQL_FIELD(trace_run_info, finished_at, SQL_TEXT),
    SQL_FIELD(trace_run_info, message, SQL_TEXT),
    SQL_FIELD_AS(trace_run_info, series_count, SQL_LONG, COUNT_OF("series WHERE series")),
    SQL_FIELD_AS(trace_run_info, iteration_count, SQL_LONG,
                 COUNT_OF("iteration JOIN series USING(series_id) WHERE series")),
    SQL_FIELD_AS(trace_run_info, plan_count, SQL_LONG, COUNT_OF("plan WHERE plan")),
    SQL_FIELD_AS(trace_run_info, result_count, SQL_LONG, COUNT_OF("result WHERE result")),
};
static const sql_field plan_fields[] = {
    SQL_FIELD(trace_run_plan, plan_id, SQL_LONG),
    SQL_FIELD(trace_run_plan, series, SQL_TEXT),
    SQL_FIELD(trace_run_plan, from_iteration, SQL_INT),
    SQL_FIELD(trace_run_plan, plan_json, SQL_TEXT),
};
static const sql_field result_fields[] = {
    SQL_FIELD(trace_run_result, label, SQL_TEXT),
    SQL_FIELD(trace_run_result, result_json, SQL_TEXT),
};
// These are the columns of their tables, in their order.
static const sql_field iteration_fields[] = {
    SQL_FIELD(trace_run_iteration, iteration, SQL_INT),
    SQL_FIELD(trace_run_iteration, plan_id, SQL_ID),
    SQL_FIELD(trace_run_iteration, iteration_ns, SQL_LONG),
    SQL_FIELD(trace_run_iteration, makespan_ns, SQL_LONG),
    SQL_FIELD(trace_run_iteration, span_ns, SQL_LONG),
    SQL_FIELD(trace_run_iteration, busy_ns, SQL_LONG),
    SQL_FIELD(trace_run_iteration, bubble_ratio, SQL_REAL),
    SQL_FIELD(trace_run_iteration, imbalance_ratio, SQL_REAL),
    SQL_FIELD(trace_run_iteration, rebalanced, SQL_FLAG),
    SQL_FIELD(trace_run_iteration, moved_layer_count, SQL_INT),
    SQL_FIELD(trace_run_iteration, moved_bytes, SQL_LONG),
    SQL_FIELD(trace_run_iteration, migration_ns, SQL_LONG),
    SQL_FIELD(trace_run_iteration, changed, SQL_FLAG),
};
static const sql_field decision_fields[] = {
    SQL_FIELD(trace_run_decision, iteration, SQL_INT),
    SQL_FIELD(trace_run_decision, action, SQL_TEXT),
    SQL_FIELD(trace_run_decision, reason, SQL_TEXT),
    SQL_FIELD(trace_run_decision, decision_ns, SQL_LONG),
    SQL_FIELD(trace_run_decision, moved_layer_count, SQL_INT),
    SQL_FIELD(trace_run_decision, moved_bytes, SQL_LONG),
    SQL_FIELD(trace_run_decision, migration_ns, SQL_LONG),
};
static const sql_field work_fields[] = {
    SQL_FIELD(trace_run_work, iteration, SQL_INT),
    SQL_FIELD(trace_run_work, place, SQL_INT),
    SQL_FIELD(trace_run_work, rank, SQL_INT),
    SQL_FIELD(trace_run_work, work_ns, SQL_LONG),
};
static const sql_field op_time_fields[] = {
    SQL_FIELD(trace_run_op_time, iteration, SQL_INT),
    SQL_FIELD(trace_run_op_time, stage, SQL_INT),
    {"kind", offsetof(trace_run_op_time, kind), SQL_WORD, kind_words, OP_KIND_COUNT},
    SQL_FIELD(trace_run_op_time, op_count, SQL_INT),
    SQL_FIELD(trace_run_op_time, median_ns, SQL_LONG),
    SQL_FIELD(trace_run_op_time, awaited_count, SQL_INT),
    SQL_FIELD(trace_run_op_time, travel_ns, SQL_OPTIONAL),
};
_Static_assert(sizeof(bal_op_kind) == sizeof(int) && sizeof(trace_status) == sizeof(int),
               "enums are read and written as int");

static const sql_field series_fields[] = {{"label", 0, SQL_TEXT, NULL, 0}};

static const sql_record of_run = SQL_RECORD(trace_run_info, run_fields);

/// The tables of runs. Those of a series have their columns in the order of the fields, the first
/// of which they are sorted by.
static const struct {
    const char *name;
    sql_record record;
    const char *order; // NULL: of a series
} tables[TRACE_RUN_TABLE_COUNT] = {
    [TRACE_RUN_INPUTS] = {"run_input", SQL_RECORD(trace_input_file, sql_input_fields), "place"},
    [TRACE_RUN_SERIES] = {"series", SQL_RECORD(const char *, series_fields), "series_id"},
    [TRACE_RUN_PLANS] = {"plan", SQL_RECORD(trace_run_plan, plan_fields), "plan_id"},
    [TRACE_RUN_RESULTS] = {"result", SQL_RECORD(trace_run_result, result_fields), "result_id"},
    [TRACE_RUN_ITERATIONS] = {"iteration", SQL_RECORD(trace_run_iteration, iteration_fields), NULL},
    [TRACE_RUN_DECISIONS] = {"decision", SQL_RECORD(trace_run_decision, decision_fields), NULL},
    [TRACE_RUN_WORK] = {"rank_work", SQL_RECORD(trace_run_work, work_fields), NULL},
    [TRACE_RUN_OP_TIMES] = {"op_time", SQL_RECORD(trace_run_op_time, op_time_fields), NULL},
};

struct trace_run {
    trace_store *store;
    int64_t run_id;
    char *series; // of the row put last
    int64_t series_id;
    sqlite3_stmt *inserts[TRACE_RUN_TABLE_COUNT];
    sqlite3_stmt *insert_item;
};

static status insert_run(trace_store *store, const trace_run_info *info,
                         const trace_input_file *files, int file_count, int64_t *run_id,
                         error_message *err)
{
    int64_t process_id = 0;
    char now[32];
    sql_now(now);
    TRY(sql_process_id(store, &process_id, err));
    TRY(sql_write_once(store, err,
                       "INSERT INTO run(name, kind, status, command_line, config_json, seed,"
                       " tool_version, started_at, process_id)"
                       " VALUES(?,?,'running',?,?,?,?,?,?)",
                       "ttttitti", info->name, trace_run_kind_names[info->kind], info->command_line,
                       info->config_json, (int64_t)info->seed, info->tool_version, now,
                       process_id));
    *run_id = sqlite3_last_insert_rowid(store->db);
    for (int file = 0; file < file_count; file++) {
        TRY(sql_put_input(store, "INSERT INTO run_input VALUES(?,?,?,?,?)", *run_id, file,
                          &files[file], err));
    }
    if (info->identity != NULL) {
        TRY(sql_write_once(store, err, "INSERT INTO item_run VALUES(?,?)", "it", *run_id,
                           info->identity));
    }
    return sql_batch_commit(store, err);
}

static void release(trace_run *run)
{
    for (int table = 0; table < TRACE_RUN_TABLE_COUNT; table++) {
        sqlite3_finalize(run->inserts[table]);
    }
    sqlite3_finalize(run->insert_item);
    free(run->series);
    free(run);
}

static status prepare_inserts(trace_run *run, error_message *err)
{
    for (int table = TRACE_RUN_ITERATIONS; table < TRACE_RUN_TABLE_COUNT; table++) {
        TRY(sql_prepare_insert(run->store, tables[table].name, &tables[table].record,
                               &run->inserts[table], err));
    }
    return sql_prepare(run->store, "INSERT OR REPLACE INTO item VALUES(?,?,?,?)", &run->insert_item,
                       err);
}

/// Hands a run that nobody writes to this process.
static status take_over(trace_store *store, int64_t run_id, error_message *err)
{
    int64_t process_id = 0;
    TRY(sql_process_id(store, &process_id, err));
    TRY(sql_write_once(store, err,
                       "UPDATE run SET status='running', process_id=?, finished_at=NULL,"
                       " message=NULL WHERE run_id=? AND (status<>'running' OR " SQL_WRITER_IS_DEAD
                       ")",
                       "ii", process_id, run_id));
    const bool is_taken = sqlite3_changes(store->db) == 1;
    TRY(sql_batch_commit(store, err));
    if (is_taken) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: run %" PRId64 " is being written by another process",
                     store->path, run_id);
}

static status open_run(trace_store *store, int64_t run_id, trace_run **run, error_message *err)
{
    trace_run *opened = memory_array(1, sizeof *opened);
    opened->store = store;
    opened->run_id = run_id;
    const status result = prepare_inserts(opened, err);
    if (result != STATUS_OK) {
        release(opened);
        return result;
    }
    *run = opened;
    return STATUS_OK;
}

status trace_run_resume(trace_store *store, int64_t run_id, trace_run **run, error_message *err)
{
    TRY(take_over(store, run_id, err));
    return open_run(store, run_id, run, err);
}

int64_t trace_run_id(const trace_run *run)
{
    return run->run_id;
}

status trace_run_begin(trace_store *store, const trace_run_info *info,
                       const trace_input_file *files, int file_count, trace_run **run,
                       error_message *err)
{
    int64_t run_id = 0;
    assert(info->name != NULL && info->command_line != NULL);
    TRY(insert_run(store, info, files, file_count, &run_id, err));
    return open_run(store, run_id, run, err);
}

status trace_run_put_plan(trace_run *run, const char *series, int from_iteration,
                          const char *plan_json, int64_t *plan_id, error_message *err)
{
    TRY(sql_write_once(
        run->store, err,
        "INSERT INTO plan(run_id, series, from_iteration, plan_json) VALUES(?,?,?,?)", "itit",
        run->run_id, series, (int64_t)from_iteration, plan_json));
    if (plan_id != NULL) *plan_id = sqlite3_last_insert_rowid(run->store->db);
    return STATUS_OK;
}

/// Looks series up, or makes it, unless it is that of the call before.
static status find_series(trace_run *run, const char *series, error_message *err)
{
    if (run->series != NULL && strcmp(run->series, series) == 0) return STATUS_OK;
    trace_store *store = run->store;
    TRY(sql_batch_begin(store, err));
    const status result = sql_get(store, &run->series_id, err,
                                  "INSERT INTO series(run_id, label) VALUES(?,?)"
                                  " ON CONFLICT DO UPDATE SET label=label RETURNING series_id",
                                  "it", run->run_id, series);
    // A full disk rolls the whole transaction back.
    if (result != STATUS_OK) store->in_batch = sqlite3_get_autocommit(store->db) == 0;
    TRY(result);
    free(run->series);
    run->series = strdup(series);
    return STATUS_OK;
}

status trace_run_put(trace_run *run, trace_run_table table, const char *series, const void *row,
                     error_message *err)
{
    assert(tables[table].order == NULL);
    TRY(find_series(run, series, err));
    return sql_insert(run->store, run->inserts[table], run->series_id, &tables[table].record, row,
                      err);
}

status trace_run_put_result(trace_run *run, const char *label, const char *result_json,
                            error_message *err)
{
    return sql_write_once(run->store, err,
                          "INSERT INTO result(run_id, label, result_json) VALUES(?,?,?)", "itt",
                          run->run_id, label, result_json);
}

status trace_run_put_item(trace_run *run, int pass, int64_t item, const char *bytes, size_t length,
                          error_message *err)
{
    TRY(sql_bind(run->store, run->insert_item, err, "iiiv", run->run_id, (int64_t)pass, item,
                 length > 0 ? bytes : "", length));
    return sql_write(run->store, run->insert_item, err);
}

status trace_run_finish(trace_run *run, const error_message *outcome, error_message *err)
{
    const bool failed = outcome != NULL && outcome->code != STATUS_OK;
    char now[32];
    sql_now(now);
    status result = sql_write_once(
        run->store, err, "UPDATE run SET status=?, finished_at=?, message=? WHERE run_id=?", "ttti",
        failed ? "failed" : "complete", now, failed ? outcome->message : NULL, run->run_id);
    if (result == STATUS_OK) result = sql_batch_commit(run->store, err);
    release(run);
    return result;
}

#define RUN_TABLES " FROM run JOIN process USING(process_id)"

status trace_run_list(trace_store *store, arena *memory, trace_run_info **runs, int *count,
                      error_message *err)
{
    return sql_rows(store, &of_run, RUN_TABLES " ORDER BY run_id", memory, runs, count, err, "");
}

/// The newest run of a name, that of a number where it is above 0, or the newest complete one.
static status find_run(trace_store *store, const char *name, int64_t number, arena *memory,
                       trace_run_info *info, bool *is_found, error_message *err)
{
    trace_run_info *runs = NULL;
    int count = 0;
    TRY(sql_rows(store, &of_run,
                 RUN_TABLES " WHERE CASE WHEN ?1>0 THEN run_id=?1 WHEN ?2 IS NULL THEN"
                            " status='complete' ELSE name=?2 END ORDER BY run_id DESC LIMIT 1",
                 memory, &runs, &count, err, "it", number, name));
    *is_found = count > 0;
    if (*is_found) *info = runs[0];
    return STATUS_OK;
}

status trace_run_find(trace_store *store, const char *name, arena *memory, trace_run_info *info,
                      error_message *err)
{
    int64_t number = 0;
    bool is_found = false;
    if (name != NULL) (void)text_parse_int64(name, "run", 1, INT64_MAX, &number, NULL);
    TRY(find_run(store, name, number, memory, info, &is_found, err));
    if (is_found) return STATUS_OK;
    if (name == NULL) {
        return error_set(err, STATUS_INVALID, "%s: holds no complete run", store->path);
    }
    return error_set(err, STATUS_INVALID, "%s: no run '%.80s'", store->path, name);
}

status trace_run_get(trace_store *store, int64_t run_id, arena *memory, trace_run_info *info,
                     error_message *err)
{
    bool is_found = false;
    TRY(find_run(store, NULL, run_id, memory, info, &is_found, err));
    if (is_found) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: no run %" PRId64, store->path, run_id);
}

status trace_run_rows(trace_store *store, int64_t run_id, trace_run_table table, const char *series,
                      arena *memory, void *rows, int *count, error_message *err)
{
    static const char of_run_id[] = "run_id=?1 AND ?2 IS NULL";
    static const char of_series[] =
        "series_id=(SELECT series_id FROM series WHERE run_id=?1 AND label=?2)";
    const char *order = tables[table].order;
    assert((series == NULL) == (order != NULL));
    char from[160];
    snprintf(from, sizeof from, " FROM %s WHERE %s ORDER BY %s", tables[table].name,
             order != NULL ? of_run_id : of_series, order != NULL ? order : "1, 2, 3");
    return sql_rows(store, &tables[table].record, from, memory, rows, count, err, "it", run_id,
                    series);
}

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
