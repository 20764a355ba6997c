#include "cli/export/exported_plan.h"

#include "analysis/export/frameworks.h"
#include "analysis/report/recorded.h"
#include "analysis/whatif/matrix.h"
#include "analysis/whatif/point.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/option_values.h"
#include "cli/schedule/schedule_costs.h"
#include "traces/store/runs.h"
#include "traces/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 256 << 20 };

// Plans of a recorded run.

/// The row of a run that --row names, or its only one.
///
/// @param path  of the store, for messages
/// @param plans [count] of all rows, each row's together
static status find_row(const cli_arguments *arguments, const char *path,
                       const trace_run_plan *plans, int count, arena *memory, const char **row,
                       error_message *err)
{
    text_buffer names = {.memory = memory};
    const char *wanted = cli_value(arguments, "--row");
    int row_count = 0;
    *row = NULL;
    for (int plan = 0; plan < count; plan++) {
        const char *series = plans[plan].series;
        if (plan > 0 && strcmp(series, plans[plan - 1].series) == 0) continue;
        text_format(&names, "%s'%.60s'", row_count++ > 0 ? ", " : "", series);
        if (wanted == NULL || strcmp(series, wanted) == 0) *row = series;
    }
    const char *known = names.length > 0 ? names.bytes : "none";
    if (wanted == NULL && row_count != 1) {
        return error_set(err, STATUS_INVALID, "%s: choose --row of %s", path, known);
    }
    if (*row != NULL) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s: no plan of row '%.60s'; there are %s", path, wanted,
                     known);
}

/// That the row has the iteration, if it is given: the last plan is none of those that come later.
static status check_iteration(const cli_arguments *arguments, trace_store *store, int64_t run_id,
                              const char *row, int iteration, arena *memory, error_message *err)
{
    trace_run_iteration *rows = NULL;
    int count = 0;
    if (!cli_has(arguments, "--iteration")) return STATUS_OK;
    TRY(trace_run_rows(store, run_id, TRACE_RUN_ITERATIONS, row, memory, &rows, &count, err));
    if (count == 0 || (iteration >= rows[0].iteration && iteration <= rows[count - 1].iteration)) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "%s: --iteration %d: row '%.60s' has %d to %d",
                     trace_store_path(store), iteration, row, rows[0].iteration,
                     rows[count - 1].iteration);
}

/// The last plan of the row that is in force at --iteration.
static status read_recorded(const cli_arguments *arguments, trace_store *store, arena *memory,
                            bal_plan *plan, error_message *err)
{
    trace_run_info run = {0};
    trace_run_plan *plans = NULL;
    const trace_run_plan *chosen = NULL;
    const char *row = NULL;
    int count = 0;
    int iteration = 0;
    TRY(cli_int(arguments, "--iteration", 0, INT32_MAX, INT32_MAX, &iteration, err));
    TRY(trace_run_find(store, cli_value(arguments, "--run"), memory, &run, err));
    TRY(trace_run_rows(store, run.run_id, TRACE_RUN_PLANS, NULL, memory, &plans, &count, err));
    TRY(find_row(arguments, trace_store_path(store), plans, count, memory, &row, err));
    TRY(check_iteration(arguments, store, run.run_id, row, iteration, memory, err));
    for (int each = 0; each < count; each++) {
        const bool is_later = chosen != NULL && plans[each].from_iteration > iteration;
        if (strcmp(plans[each].series, row) == 0 && !is_later) chosen = &plans[each];
    }
    return ana_recorded_plan(chosen, memory, plan, err);
}

// The plan of a point of a study.

/// Number of the point that --point names, or of the only one.
static status find_point(const cli_arguments *arguments, const ana_matrix *matrix, int64_t *point,
                         error_message *err)
{
    int asked = -1;
    TRY(cli_int(arguments, "--point", 0, ANA_POINTS_MAX, -1, &asked, err));
    *point = asked >= 0 ? asked : 0;
    if (asked < 0 && matrix->point_count > 1) {
        return error_set(err, STATUS_INVALID, "%s: choose --point of 0 to %" PRId64, matrix->name,
                         matrix->point_count - 1);
    }
    if (*point < matrix->point_count) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "--point %d: %s has points 0 to %" PRId64, asked,
                     matrix->name, matrix->point_count - 1);
}

/// How much longer a point takes where tokens go to experts in one of the two ways; 0: not known.
static double dispatch_ratio(ana_point_worker *worker, const char *path, const char *text,
                             const char *changes, double iteration_ns)
{
    ana_point point;
    const status played = ana_point_evaluate(worker, path, text, changes, &point, NULL);
    if (played != STATUS_OK || point.refusal != ANA_REFUSAL_NONE) return 0;
    return point.iteration_ns / iteration_ns;
}

/// What the ends of a share of copies that are not sent take: frameworks send all or none.
static status play_dispatch(const ana_matrix *matrix, const char *changes, double iteration_ns,
                            arena *memory, cli_exported_plan *exported, error_message *err)
{
    const model_parallel *parallel = &exported->launch.parallel;
    text_buffer text = {.memory = memory};
    if (parallel->expert == 1 || parallel->expert_deduplication <= 0 ||
        parallel->expert_deduplication >= 1) {
        return STATUS_OK;
    }
    TRY(json_change(matrix->name, matrix->base, changes, &text, err));
    ana_point_worker *worker = ana_point_worker_create(memory);
    exported->copied_ratio = dispatch_ratio(worker, matrix->name, text.bytes,
                                            "{\"training.expert_deduplication\":0}", iteration_ns);
    exported->once_ratio = dispatch_ratio(worker, matrix->name, text.bytes,
                                          "{\"training.expert_deduplication\":1}", iteration_ns);
    return STATUS_OK;
}

/// What the point's balancer decides: the plan at the end of its run.
static status play_point(ana_point_worker *worker, const ana_matrix *matrix, const char *changes,
                         arena *memory, cli_exported_plan *exported, error_message *err)
{
    ana_point point;
    const char *path = matrix->name;
    TRY(ana_point_check(worker, path, matrix->base, changes, err));
    TRY(ana_point_evaluate(worker, path, matrix->base, changes, &point, err));
    if (point.refusal != ANA_REFUSAL_NONE) {
        return error_set(err, STATUS_INFEASIBLE, "%s: %s%s%s", path,
                         ana_refusal_names[point.refusal], point.message != NULL ? ": " : "",
                         point.message != NULL ? point.message : "");
    }
    const bal_plan *plan = ana_point_worker_plan(worker);
    if (plan == NULL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: the balancer gives layers to ranks in any order; nothing plays that",
                         path);
    }
    exported->plan = *plan;
    exported->launch = ana_launch_of(ana_point_worker_setup(worker));
    return play_dispatch(matrix, changes, point.iteration_ns, memory, exported, err);
}

static status read_point(const cli_arguments *arguments, const char *path, const char *text,
                         arena *memory, cli_exported_plan *exported, error_message *err)
{
    ana_matrix matrix;
    int64_t number = 0;
    text_buffer changes = {.memory = memory};
    TRY(ana_matrix_open(path, text, memory, &matrix, err));
    TRY(find_point(arguments, &matrix, &number, err));
    int *value = arena_array(memory, (size_t)matrix.axis_count + 1, sizeof *value);
    ana_matrix_values(&matrix, number, value);
    ana_matrix_changes(&matrix, value, &changes);
    return play_point(ana_point_worker_create(memory), &matrix, changes.bytes, memory, exported,
                      err);
}

/// A plan or a study; with takes_orders whatever has no schema is an order.
static status read_text(const cli_arguments *arguments, const char *path, const char *bytes,
                        size_t length, bool takes_orders, arena *memory,
                        cli_exported_plan *exported, error_message *err)
{
    json_document *document = NULL;
    const char *schema = "";
    exported->is_order = takes_orders && !cli_schedule_order_is_json(bytes, length);
    if (exported->is_order) {
        return cli_schedule_order_parse(path, bytes, length, memory, &exported->order, err);
    }
    TRY(json_open_bytes(path, bytes, length, &document, err));
    const json_value root = json_keep(document, memory);
    const json_value named = json_member(root, "schema");
    if (json_is_string(named)) json_string(named, &schema, NULL);
    if (takes_orders && json_is_missing(named)) {
        exported->is_order = true;
        return cli_schedule_order_parse(path, bytes, length, memory, &exported->order, err);
    }
    return strncmp(schema, "dynmo-study/", strlen("dynmo-study/")) == 0
               ? read_point(arguments, path, bytes, memory, exported, err)
               : bal_plan_read(root, memory, &exported->plan, err);
}

status cli_exported_plan_read(const cli_arguments *arguments, const char *path, bool takes_orders,
                              arena *memory, cli_exported_plan *exported, error_message *err)
{
    bool is_store = false;
    trace_store *store = NULL;
    char *bytes = NULL;
    size_t length = 0;
    *exported = (cli_exported_plan){.is_order = false};
    TRY(cli_is_store(path, &is_store, err));
    if (is_store) {
        TRY(trace_store_open_within(path, TRACE_READ, memory, &store, err));
        return read_recorded(arguments, store, memory, &exported->plan, err);
    }
    TRY(file_read(path, FILE_MAX, &bytes, &length, err));
    arena_own(memory, bytes, free);
    return read_text(arguments, path, bytes, length, takes_orders, memory, exported, err);
}

// The order of the plan.

/// @param costs_path that a searched schedule of the plan is searched on; NULL: not given
static status order_of_plan(const bal_plan *plan, const char *costs_path, arena *memory,
                            bal_schedule *schedule, error_message *err)
{
    const cli_schedule_shape shape = {.rank_count = plan->rank_count,
                                      .microbatch_count = plan->microbatch_count,
                                      .chunk_count = plan->chunk_count,
                                      .placement = plan->placement,
                                      .first_stage_whole = plan->first_stage_whole};
    const bool is_searched =
        plan->order == NULL && bal_schedule_family_find(plan->schedule)->is_searched;
    cli_schedule_costs costs;
    if (!is_searched || costs_path == NULL) return ana_export_order(plan, memory, schedule, err);
    TRY(cli_schedule_costs_read(costs_path, &shape, memory, &costs, err));
    const bal_schedule_request request = {.name = plan->schedule,
                                          .rank_count = plan->rank_count,
                                          .microbatch_count = plan->microbatch_count,
                                          .chunk_count = plan->chunk_count,
                                          .costs = &costs.stages,
                                          .memory_limit = costs.memory_limit};
    return bal_schedule_build(&request, memory, schedule, err);
}

status cli_exported_order_read(const cli_arguments *arguments, const char *path, arena *memory,
                               bal_schedule *schedule, bool *is_whole, error_message *err)
{
    cli_exported_plan exported;
    status result = STATUS_OK;
    TRY(cli_exported_plan_read(arguments, path, true, memory, &exported, err));
    *is_whole = exported.plan.first_stage_whole;
    if (exported.is_order) {
        *schedule = exported.order;
        result = bal_schedule_check(schedule, err);
    } else {
        result =
            order_of_plan(&exported.plan, cli_value(arguments, "--costs"), memory, schedule, err);
    }
    return result == STATUS_OK ? STATUS_OK : error_prefix(err, result, "%s", path);
}

// The recipe of a recorded row.

/// The plans of the row that --row names, or of the only one.
///
/// @param steps [plan_count] out, as many as the row has
static status read_steps(const cli_arguments *arguments, const char *path,
                         const trace_run_plan *plans, int plan_count, arena *memory,
                         const char **row, ana_plan_step *steps, int *step_count,
                         error_message *err)
{
    TRY(find_row(arguments, path, plans, plan_count, memory, row, err));
    *step_count = 0;
    for (int plan = 0; plan < plan_count; plan++) {
        if (strcmp(plans[plan].series, *row) != 0) continue;
        ana_plan_step *step = &steps[(*step_count)++];
        step->from_iteration = plans[plan].from_iteration;
        TRY(ana_recorded_plan(&plans[plan], memory, &step->plan, err));
    }
    return STATUS_OK;
}

/// How many iterations the row had.
static status count_iterations(trace_store *store, int64_t run_id, const char *row, arena *memory,
                               int *count, error_message *err)
{
    trace_run_iteration *iterations = NULL;
    int found = 0;
    TRY(trace_run_rows(store, run_id, TRACE_RUN_ITERATIONS, row, memory, &iterations, &found, err));
    *count = found > 0 ? iterations[found - 1].iteration + 1 : 0;
    return STATUS_OK;
}

/// What the comparison of the run says of its GPUs; 0 where there is none or it is older.
static status read_layout(trace_store *store, int64_t run_id, arena *memory, int *gpus_per_rank,
                          int *gpus_per_node, error_message *err)
{
    trace_run_result *results = NULL;
    int count = 0;
    TRY(trace_run_rows(store, run_id, TRACE_RUN_RESULTS, NULL, memory, &results, &count, err));
    for (int result = 0; result < count; result++) {
        json_value root;
        if (strcmp(results[result].label, "comparison") != 0) continue;
        TRY(json_read_text("comparison", results[result].result_json, memory, &root, err));
        const json_value per_rank = json_member(root, "gpus_per_rank");
        const json_value per_node = json_member(root, "gpus_per_node");
        if (json_is_missing(per_rank) || json_is_missing(per_node)) return STATUS_OK;
        TRY(json_int(per_rank, 1, 1 << 16, gpus_per_rank, err));
        return json_int(per_node, 1, 1 << 16, gpus_per_node, err);
    }
    return STATUS_OK;
}

static status fill_layout(const cli_arguments *arguments, trace_store *store, int64_t run_id,
                          arena *memory, ana_slurm_shrink *shrink, error_message *err)
{
    TRY(read_layout(store, run_id, memory, &shrink->gpus_per_rank, &shrink->gpus_per_node, err));
    TRY(cli_int(arguments, "--gpus-per-rank", 1, 1 << 16,
                shrink->gpus_per_rank > 0 ? shrink->gpus_per_rank : 1, &shrink->gpus_per_rank,
                err));
    TRY(cli_int(arguments, "--gpus-per-node", 1, 1 << 16, shrink->gpus_per_node,
                &shrink->gpus_per_node, err));
    if (strcmp(shrink->manager, "mig") == 0) shrink->gpus_per_node = shrink->gpus_per_rank;
    if (shrink->gpus_per_node > 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "run %" PRId64 " does not say how many GPUs a node has: give --gpus-per-node",
                     run_id);
}

status cli_write_recipe(const cli_arguments *arguments, trace_store *store, arena *memory,
                        text_buffer *out, error_message *err)
{
    trace_run_info run;
    trace_run_plan *plans = NULL;
    int count = 0;
    ana_slurm_shrink shrink = {.manager = cli_operand(arguments, 0)};
    char origin[200];
    const char *row = NULL;
    TRY(trace_run_find(store, cli_value(arguments, "--run"), memory, &run, err));
    TRY(trace_run_rows(store, run.run_id, TRACE_RUN_PLANS, NULL, memory, &plans, &count, err));
    ana_plan_step *steps = arena_array(memory, (size_t)count, sizeof *steps);
    TRY(read_steps(arguments, trace_store_path(store), plans, count, memory, &row, steps,
                   &shrink.step_count, err));
    TRY(count_iterations(store, run.run_id, row, memory, &shrink.end_iteration, err));
    TRY(fill_layout(arguments, store, run.run_id, memory, &shrink, err));
    snprintf(origin, sizeof origin, "row '%.80s' of run %" PRId64, row, run.run_id);
    shrink.origin = origin;
    shrink.steps = steps;
    return ana_slurm_shrink_write(&shrink, memory, out, err);
}
