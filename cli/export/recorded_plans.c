/// Finds the run, the row and its plans that a recipe for Slurm is made of.
#include "cli/export/recorded_plans.h"

#include "analysis/export/slurm_shrink.h"
#include "cli/export/exported_plan.h"
#include "traces/store/runs.h"
#include "traces/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// A run with its plans.
typedef struct recorded_plans {
    trace_run_info info;
    trace_run_plan *plans; // [plan_count] of all rows
    int plan_count;
} recorded_plans;

/// The run that --run names, or the newest complete one that holds plans.
static status find_run(const cli_arguments *arguments, trace_store *store, arena *memory,
                       recorded_plans *found, error_message *err)
{
    const char *name = cli_value(arguments, "--run");
    trace_run_info *runs = NULL;
    int count = 0;
    if (name != NULL) {
        TRY(trace_run_find(store, name, memory, &found->info, err));
        return trace_run_plans(store, found->info.run_id, memory, &found->plans, &found->plan_count,
                               err);
    }
    TRY(trace_run_list(store, memory, &runs, &count, err));
    for (int run = count - 1; run >= 0; run--) {
        if (runs[run].status != TRACE_COMPLETE) continue;
        found->info = runs[run];
        TRY(trace_run_plans(store, found->info.run_id, memory, &found->plans, &found->plan_count,
                            err));
        if (found->plan_count > 0) return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "%s: holds no complete run with plans; record one with `dynmo simulate "
                     "--store`",
                     trace_store_path(store));
}

/// The plans of a row.
///
/// @param steps [found->plan_count] out, as many as the row has
static status read_steps(const recorded_plans *found, const char *row, arena *memory,
                         ana_plan_step *steps, int *step_count, error_message *err)
{
    *step_count = 0;
    for (int plan = 0; plan < found->plan_count; plan++) {
        const trace_run_plan *recorded = &found->plans[plan];
        if (strcmp(recorded->series, row) != 0) continue;
        ana_plan_step *step = &steps[(*step_count)++];
        step->from_iteration = recorded->from_iteration;
        TRY(cli_recorded_plan_read(recorded, memory, &step->plan, err));
    }
    return STATUS_OK;
}

static bool releases_ranks(const ana_plan_step *steps, int step_count)
{
    for (int step = 1; step < step_count; step++) {
        if (steps[step].plan.rank_count < steps[0].plan.rank_count) return true;
    }
    return false;
}

/// The row that --row names, or the only one that releases ranks.
static status choose_row(const cli_arguments *arguments, const recorded_plans *found, arena *memory,
                         ana_plan_step *steps, const char **row, int *step_count,
                         error_message *err)
{
    char rows[160] = "";
    const char *wanted = cli_value(arguments, "--row");
    const char *label = NULL;
    const char *chosen = NULL;
    int candidate_count = 0;
    for (int plan = 0; plan < found->plan_count; plan++) {
        if (label != NULL && strcmp(found->plans[plan].series, label) == 0) continue;
        label = found->plans[plan].series;
        TRY(read_steps(found, label, memory, steps, step_count, err));
        const bool is_wanted = wanted != NULL && strcmp(label, wanted) == 0;
        if (!is_wanted && !releases_ranks(steps, *step_count)) continue;
        const size_t used = strlen(rows);
        snprintf(rows + used, sizeof rows - used, "%s'%.60s'", used > 0 ? ", " : "", label);
        if (wanted != NULL && !is_wanted) continue;
        candidate_count++;
        chosen = label;
    }
    if (candidate_count == 1) {
        *row = chosen;
        return read_steps(found, chosen, memory, steps, step_count, err);
    }
    if (wanted != NULL) {
        return error_set(err, STATUS_INVALID,
                         "run %" PRId64 " has no row '%.60s'; rows that release ranks: %s",
                         found->info.run_id, wanted, rows[0] != '\0' ? rows : "none");
    }
    if (candidate_count == 0) {
        return error_set(err, STATUS_INVALID,
                         "no row of run %" PRId64 " (%.60s) releases ranks: there is nothing to "
                         "give back",
                         found->info.run_id, found->info.name);
    }
    return error_set(err, STATUS_INVALID, "several rows release ranks: choose --row of %s", rows);
}

/// How many iterations the row had.
static status count_iterations(trace_store *store, int64_t run_id, const char *row, arena *memory,
                               int *count, error_message *err)
{
    trace_run_iteration *iterations = NULL;
    int found = 0;
    TRY(trace_run_iterations(store, run_id, row, memory, &iterations, &found, err));
    *count = found > 0 ? iterations[found - 1].iteration + 1 : 0;
    return STATUS_OK;
}

/// What the comparison of the run says of its GPUs; 0 where there is none or it is older.
static status read_layout(trace_store *store, int64_t run_id, arena *memory, int *gpus_per_rank,
                          int *gpus_per_node, error_message *err)
{
    trace_run_result *results = NULL;
    int count = 0;
    TRY(trace_run_results(store, run_id, memory, &results, &count, err));
    for (int result = 0; result < count; result++) {
        json_document *document = NULL;
        const char *json = results[result].result_json;
        if (strcmp(results[result].label, "comparison") != 0) continue;
        TRY(json_open_bytes("comparison", json, strlen(json), &document, err));
        const json_value per_rank = json_member(json_root(document), "gpus_per_rank");
        const json_value per_node = json_member(json_root(document), "gpus_per_node");
        status read = STATUS_OK;
        if (!json_is_missing(per_rank) && !json_is_missing(per_node)) {
            read = json_int(per_rank, 1, 1 << 16, gpus_per_rank, err);
            if (read == STATUS_OK) read = json_int(per_node, 1, 1 << 16, gpus_per_node, err);
        }
        json_close(document);
        return read;
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
    recorded_plans found;
    ana_slurm_shrink shrink = {0};
    char origin[200];
    const char *row = NULL;
    TRY(find_run(arguments, store, memory, &found, err));
    ana_plan_step *steps = arena_array(memory, (size_t)found.plan_count, sizeof *steps);
    TRY(choose_row(arguments, &found, memory, steps, &row, &shrink.step_count, err));
    TRY(count_iterations(store, found.info.run_id, row, memory, &shrink.end_iteration, err));
    shrink.manager = cli_operand(arguments, 0);
    TRY(fill_layout(arguments, store, found.info.run_id, memory, &shrink, err));
    snprintf(origin, sizeof origin, "row '%.80s' of run %" PRId64, row, found.info.run_id);
    shrink.origin = origin;
    shrink.steps = steps;
    return ana_slurm_shrink_write(&shrink, memory, out, err);
}
