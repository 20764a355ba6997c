#include "traces/store/runs.h"

#include "base/arena.h"
#include "base/text.h"
#include "traces/store/sql.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct trace_run {
    trace_store *store;
    int64_t run_id;
    char *series; // of the iteration put last
    int64_t series_id;
    sqlite3_stmt *insert_iteration;
    sqlite3_stmt *insert_decision;
    sqlite3_stmt *insert_work;
    sqlite3_stmt *insert_op_time;
    sqlite3_stmt *insert_item;
};

/// The words of op kinds in the store.
static const char *const kind_words[OP_KIND_COUNT] = {
    [OP_FORWARD] = "F",
    [OP_BACKWARD_INPUT] = "B",
    [OP_BACKWARD_WEIGHT] = "W",
    [OP_BACKWARD] = "BW",
};

const char *trace_run_kind_name(trace_run_kind kind)
{
    static const char *const names[TRACE_RUN_KIND_COUNT] = {"sim", "exec", "import"};
    assert(kind >= 0 && kind < TRACE_RUN_KIND_COUNT);
    return names[kind];
}

static status insert_run(trace_run *run, const trace_run_info *info, const trace_input_file *files,
                         int file_count, error_message *err)
{
    trace_store *store = run->store;
    int64_t process_id = 0;
    char now[32];
    sql_now(now);
    TRY(sql_process_id(store, &process_id, err));
    TRY(sql_write_once(store, err,
                       "INSERT INTO run(name, kind, status, command_line, config_json, seed,"
                       " tool_version, started_at, process_id)"
                       " VALUES(?,?,'running',?,?,?,?,?,?)",
                       "ttttitti", info->name, trace_run_kind_name(info->kind), info->command_line,
                       info->config_json, (int64_t)info->seed, info->tool_version, now,
                       process_id));
    run->run_id = sqlite3_last_insert_rowid(store->db);
    for (int file = 0; file < file_count; file++) {
        char hash[17];
        snprintf(hash, sizeof hash, "%016" PRIx64, files[file].hash);
        TRY(sql_write_once(store, err, "INSERT INTO run_input VALUES(?,?,?,?,?)", "iitit",
                           run->run_id, (int64_t)file, files[file].path, files[file].bytes, hash));
    }
    return sql_batch_commit(store, err);
}

static void release(trace_run *run)
{
    sqlite3_finalize(run->insert_iteration);
    sqlite3_finalize(run->insert_decision);
    sqlite3_finalize(run->insert_work);
    sqlite3_finalize(run->insert_op_time);
    sqlite3_finalize(run->insert_item);
    free(run->series);
    free(run);
}

static status prepare_inserts(trace_run *run, error_message *err)
{
    trace_store *store = run->store;
    TRY(sql_prepare(store, "INSERT INTO iteration VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                    &run->insert_iteration, err));
    TRY(sql_prepare(store, "INSERT INTO decision VALUES(?,?,?,?,?,?,?,?)", &run->insert_decision,
                    err));
    TRY(sql_prepare(store, "INSERT INTO rank_work VALUES(?,?,?,?,?)", &run->insert_work, err));
    TRY(sql_prepare(store, "INSERT INTO op_time VALUES(?,?,?,?,?,?,?,?)", &run->insert_op_time,
                    err));
    return sql_prepare(store, "INSERT OR REPLACE INTO item VALUES(?,?,?,?)", &run->insert_item,
                       err);
}

/// Hands a run that nobody writes to this process.
static status take_over(trace_run *run, error_message *err)
{
    trace_store *store = run->store;
    int64_t process_id = 0;
    TRY(sql_process_id(store, &process_id, err));
    TRY(sql_write_once(store, err,
                       "UPDATE run SET status='running', process_id=?, finished_at=NULL,"
                       " message=NULL WHERE run_id=? AND (status<>'running' OR process_id IN"
                       "(SELECT process_id FROM process WHERE"
                       " process_is_dead(host, boot, pid_namespace, pid, start_ticks)))",
                       "ii", process_id, run->run_id));
    const bool is_taken = sqlite3_changes(store->db) == 1;
    TRY(sql_batch_commit(store, err));
    if (is_taken) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: run %" PRId64 " is being written by another process",
                     store->path, run->run_id);
}

status trace_run_resume(trace_store *store, int64_t run_id, trace_run **run, error_message *err)
{
    trace_run *resumed = memory_array(1, sizeof *resumed);
    resumed->store = store;
    resumed->run_id = run_id;
    status result = take_over(resumed, err);
    if (result == STATUS_OK) result = prepare_inserts(resumed, err);
    if (result != STATUS_OK) {
        release(resumed);
        return result;
    }
    *run = resumed;
    return STATUS_OK;
}

int64_t trace_run_id(const trace_run *run)
{
    return run->run_id;
}

status trace_run_begin(trace_store *store, const trace_run_info *info,
                       const trace_input_file *files, int file_count, trace_run **run,
                       error_message *err)
{
    assert(info->name != NULL && info->command_line != NULL);
    trace_run *begun = memory_array(1, sizeof *begun);
    begun->store = store;
    status result = insert_run(begun, info, files, file_count, err);
    if (result == STATUS_OK) result = prepare_inserts(begun, err);
    if (result != STATUS_OK) {
        release(begun);
        return result;
    }
    *run = begun;
    return STATUS_OK;
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
    sqlite3_stmt *statement = NULL;
    bool has_row = false;
    TRY(sql_batch_begin(store, err));
    TRY(sql_prepare(store,
                    "INSERT INTO series(run_id, label) VALUES(?,?)"
                    " ON CONFLICT DO UPDATE SET label=label RETURNING series_id",
                    &statement, err));
    status result = sql_bind(store, statement, err, "it", run->run_id, series);
    if (result == STATUS_OK) result = sql_step(store, statement, &has_row, err);
    if (has_row) run->series_id = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    // A full disk rolls the whole transaction back.
    if (result != STATUS_OK) store->in_batch = sqlite3_get_autocommit(store->db) == 0;
    TRY(result);
    free(run->series);
    run->series = strdup(series);
    return STATUS_OK;
}

status trace_run_put_iteration(trace_run *run, const char *series,
                               const trace_run_iteration *iteration, error_message *err)
{
    TRY(find_series(run, series, err));
    TRY(sql_bind(run->store, run->insert_iteration, err, "iiniiiiddbiiib", run->series_id,
                 (int64_t)iteration->iteration,
                 iteration->plan_id > 0 ? iteration->plan_id : INT64_C(-1), iteration->iteration_ns,
                 iteration->makespan_ns, iteration->span_ns, iteration->busy_ns,
                 iteration->bubble_ratio, iteration->imbalance_ratio, iteration->rebalanced,
                 (int64_t)iteration->moved_layer_count, iteration->moved_bytes,
                 iteration->migration_ns, iteration->changed));
    return sql_write(run->store, run->insert_iteration, err);
}

status trace_run_put_decision(trace_run *run, const char *series,
                              const trace_run_decision *decision, error_message *err)
{
    TRY(find_series(run, series, err));
    TRY(sql_bind(run->store, run->insert_decision, err, "iittiiii", run->series_id,
                 (int64_t)decision->iteration, decision->action, decision->reason,
                 decision->decision_ns, (int64_t)decision->moved_layer_count, decision->moved_bytes,
                 decision->migration_ns));
    return sql_write(run->store, run->insert_decision, err);
}

status trace_run_put_work(trace_run *run, const char *series, const trace_run_work *work,
                          error_message *err)
{
    TRY(find_series(run, series, err));
    TRY(sql_bind(run->store, run->insert_work, err, "iiiii", run->series_id,
                 (int64_t)work->iteration, (int64_t)work->place, (int64_t)work->rank,
                 work->work_ns));
    return sql_write(run->store, run->insert_work, err);
}

status trace_run_put_op_time(trace_run *run, const char *series, const trace_run_op_time *op_time,
                             error_message *err)
{
    TRY(find_series(run, series, err));
    TRY(sql_bind(run->store, run->insert_op_time, err, "iiitiiin", run->series_id,
                 (int64_t)op_time->iteration, (int64_t)op_time->stage, kind_words[op_time->kind],
                 (int64_t)op_time->op_count, op_time->median_ns, (int64_t)op_time->awaited_count,
                 op_time->travel_ns));
    return sql_write(run->store, run->insert_op_time, err);
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

#define RUN_COLUMNS                                                                                \
    "SELECT run_id, " SQL_STATUS ", name, kind, command_line, config_json, seed, tool_version,"    \
    " host, started_at, finished_at, message,"
#define RUN_TABLES " FROM run JOIN process USING(process_id)"

static void read_run(sqlite3_stmt *row, arena *memory, void *item)
{
    trace_run_info *info = item;
    *info = (trace_run_info){
        .run_id = sqlite3_column_int64(row, 0),
        .status = sql_status(row, 1),
        .name = sql_text(row, 2, memory),
        .command_line = sql_text(row, 4, memory),
        .config_json = sql_text(row, 5, memory),
        .seed = (uint64_t)sqlite3_column_int64(row, 6),
        .tool_version = sql_text(row, 7, memory),
        .host = sql_text(row, 8, memory),
        .started_at = sql_text(row, 9, memory),
        .finished_at = sql_text(row, 10, memory),
        .message = sql_text(row, 11, memory),
        .series_count = sqlite3_column_int64(row, 12),
        .iteration_count = sqlite3_column_int64(row, 13),
        .plan_count = sqlite3_column_int64(row, 14),
        .result_count = sqlite3_column_int64(row, 15),
    };
    const char *kind = (const char *)sqlite3_column_text(row, 3);
    for (int index = 0; index < TRACE_RUN_KIND_COUNT && kind != NULL; index++) {
        if (strcmp(kind, trace_run_kind_name((trace_run_kind)index)) == 0) {
            info->kind = (trace_run_kind)index;
        }
    }
}

static void read_plan(sqlite3_stmt *row, arena *memory, void *item)
{
    trace_run_plan *plan = item;
    *plan = (trace_run_plan){.plan_id = sqlite3_column_int64(row, 0),
                             .series = sql_text(row, 1, memory),
                             .from_iteration = sqlite3_column_int(row, 2),
                             .plan_json = sql_text(row, 3, memory)};
}

static void read_result(sqlite3_stmt *row, arena *memory, void *item)
{
    trace_run_result *result = item;
    *result = (trace_run_result){sql_text(row, 0, memory), sql_text(row, 1, memory)};
}

static void read_label(sqlite3_stmt *row, arena *memory, void *item)
{
    const char **label = item;
    *label = sql_text(row, 0, memory);
}

static void read_iteration(sqlite3_stmt *row, arena *memory, void *item)
{
    (void)memory;
    trace_run_iteration *iteration = item;
    *iteration = (trace_run_iteration){
        .iteration = sqlite3_column_int(row, 0),
        .plan_id = sqlite3_column_int64(row, 1),
        .iteration_ns = sqlite3_column_int64(row, 2),
        .makespan_ns = sqlite3_column_int64(row, 3),
        .span_ns = sqlite3_column_int64(row, 4),
        .busy_ns = sqlite3_column_int64(row, 5),
        .bubble_ratio = sqlite3_column_double(row, 6),
        .imbalance_ratio = sqlite3_column_double(row, 7),
        .rebalanced = sqlite3_column_int(row, 8) != 0,
        .moved_layer_count = sqlite3_column_int(row, 9),
        .moved_bytes = sqlite3_column_int64(row, 10),
        .migration_ns = sqlite3_column_int64(row, 11),
        .changed = sqlite3_column_int(row, 12) != 0,
    };
}

static void read_decision(sqlite3_stmt *row, arena *memory, void *item)
{
    trace_run_decision *decision = item;
    *decision = (trace_run_decision){
        .iteration = sqlite3_column_int(row, 0),
        .action = sql_text(row, 1, memory),
        .reason = sql_text(row, 2, memory),
        .decision_ns = sqlite3_column_int64(row, 3),
        .moved_layer_count = sqlite3_column_int(row, 4),
        .moved_bytes = sqlite3_column_int64(row, 5),
        .migration_ns = sqlite3_column_int64(row, 6),
    };
}

static void read_work(sqlite3_stmt *row, arena *memory, void *item)
{
    (void)memory;
    trace_run_work *work = item;
    *work = (trace_run_work){
        .iteration = sqlite3_column_int(row, 0),
        .place = sqlite3_column_int(row, 1),
        .rank = sqlite3_column_int(row, 2),
        .work_ns = sqlite3_column_int64(row, 3),
    };
}

static void read_op_time(sqlite3_stmt *row, arena *memory, void *item)
{
    (void)memory;
    trace_run_op_time *op_time = item;
    *op_time = (trace_run_op_time){
        .iteration = sqlite3_column_int(row, 0),
        .stage = sqlite3_column_int(row, 1),
        .op_count = sqlite3_column_int(row, 3),
        .median_ns = sqlite3_column_int64(row, 4),
        .awaited_count = sqlite3_column_int(row, 5),
        .travel_ns = sqlite3_column_int64(row, 6),
    };
    const char *word = (const char *)sqlite3_column_text(row, 2);
    for (int kind = 0; kind < OP_KIND_COUNT && word != NULL; kind++) {
        if (strcmp(word, kind_words[kind]) == 0) op_time->kind = (bal_op_kind)kind;
    }
}

status trace_run_list(trace_store *store, arena *memory, trace_run_info **runs, int *count,
                      error_message *err)
{
    static const sql_select select = {
        RUN_COLUMNS " (SELECT count(*) FROM series WHERE series.run_id=run.run_id),"
                    " (SELECT count(*) FROM iteration JOIN series USING(series_id)"
                    " WHERE series.run_id=run.run_id),"
                    " (SELECT count(*) FROM plan WHERE plan.run_id=run.run_id),"
                    " (SELECT count(*) FROM result WHERE result.run_id=run.run_id)" RUN_TABLES
                    " ORDER BY run_id",
        read_run, sizeof(trace_run_info)};
    return sql_rows(store, &select, memory, runs, count, err, "");
}

/// The newest run of a name, that of a number where it is above 0, or the newest complete one.
static status find_run(trace_store *store, const char *name, int64_t number, arena *memory,
                       trace_run_info *info, bool *is_found, error_message *err)
{
    static const sql_select select = {
        RUN_COLUMNS " 0, 0, 0, 0" RUN_TABLES
                    " WHERE CASE WHEN ?1>0 THEN run_id=?1 WHEN ?2 IS NULL THEN status='complete'"
                    " ELSE name=?2 END ORDER BY run_id DESC LIMIT 1",
        read_run, sizeof(trace_run_info)};
    trace_run_info *runs = NULL;
    int count = 0;
    TRY(sql_rows(store, &select, memory, &runs, &count, err, "it", number, name));
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

status trace_run_inputs(trace_store *store, int64_t run_id, arena *memory, trace_input_file **files,
                        int *count, error_message *err)
{
    static const sql_select select = {
        "SELECT path, bytes, hash FROM run_input WHERE run_id=? ORDER BY place",
        sql_read_input_file, sizeof(trace_input_file)};
    return sql_rows(store, &select, memory, files, count, err, "i", run_id);
}

status trace_run_series(trace_store *store, int64_t run_id, arena *memory, const char ***series,
                        int *count, error_message *err)
{
    static const sql_select select = {"SELECT label FROM series WHERE run_id=? ORDER BY series_id",
                                      read_label, sizeof(const char *)};
    return sql_rows(store, &select, memory, series, count, err, "i", run_id);
}

#define OF_SERIES " WHERE series_id=(SELECT series_id FROM series WHERE run_id=? AND label=?)"

status trace_run_iterations(trace_store *store, int64_t run_id, const char *series, arena *memory,
                            trace_run_iteration **iterations, int *count, error_message *err)
{
    static const sql_select select = {
        "SELECT iteration, coalesce(plan_id, 0) AS plan_id, iteration_ns, makespan_ns,"
        " span_ns, busy_ns, bubble_ratio, imbalance_ratio, rebalanced,"
        " moved_layer_count, moved_bytes, migration_ns, coalesce(changed, 0) AS changed"
        " FROM iteration" OF_SERIES " ORDER BY iteration",
        read_iteration, sizeof(trace_run_iteration)};
    return sql_rows(store, &select, memory, iterations, count, err, "it", run_id, series);
}

status trace_run_decisions(trace_store *store, int64_t run_id, const char *series, arena *memory,
                           trace_run_decision **decisions, int *count, error_message *err)
{
    static const sql_select select = {
        "SELECT iteration, action, reason, decision_ns, moved_layer_count,"
        " moved_bytes, migration_ns FROM decision" OF_SERIES " ORDER BY iteration",
        read_decision, sizeof(trace_run_decision)};
    return sql_rows(store, &select, memory, decisions, count, err, "it", run_id, series);
}

status trace_run_work_of(trace_store *store, int64_t run_id, const char *series, arena *memory,
                         trace_run_work **work, int *count, error_message *err)
{
    static const sql_select select = {
        "SELECT iteration, place, rank, work_ns FROM rank_work" OF_SERIES
        " ORDER BY iteration, place",
        read_work, sizeof(trace_run_work)};
    return sql_rows(store, &select, memory, work, count, err, "it", run_id, series);
}

status trace_run_op_times_of(trace_store *store, int64_t run_id, const char *series, arena *memory,
                             trace_run_op_time **op_times, int *count, error_message *err)
{
    static const sql_select select = {
        "SELECT iteration, stage, kind, op_count, median_ns, awaited_count,"
        " coalesce(travel_ns, -1) FROM op_time" OF_SERIES " ORDER BY iteration, stage, kind",
        read_op_time, sizeof(trace_run_op_time)};
    return sql_rows(store, &select, memory, op_times, count, err, "it", run_id, series);
}

status trace_run_plans(trace_store *store, int64_t run_id, arena *memory, trace_run_plan **plans,
                       int *count, error_message *err)
{
    static const sql_select select = {
        "SELECT plan_id, series, from_iteration, plan_json FROM plan WHERE run_id=?"
        " ORDER BY plan_id",
        read_plan, sizeof(trace_run_plan)};
    return sql_rows(store, &select, memory, plans, count, err, "i", run_id);
}

status trace_run_results(trace_store *store, int64_t run_id, arena *memory,
                         trace_run_result **results, int *count, error_message *err)
{
    static const sql_select select = {
        "SELECT label, result_json FROM result WHERE run_id=? ORDER BY result_id", read_result,
        sizeof(trace_run_result)};
    return sql_rows(store, &select, memory, results, count, err, "i", run_id);
}
