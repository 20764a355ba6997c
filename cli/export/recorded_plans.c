/// Finds the run, the row and its plans that a recipe for Slurm is made of.
#include "cli/export/recorded_plans.h"

#include "analysis/export/slurm_shrink.h"
#include "analysis/report/recorded.h"
#include "cli/export/exported_plan.h"
#include "traces/store/runs.h"
#include "traces/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// The plans of the row that --row names, or of the only one.
///
/// @param steps [plan_count] out, as many as the row has
static status read_steps(const cli_arguments *arguments, const char *path,
                         const trace_run_plan *plans, int plan_count, arena *memory,
                         const char **row, ana_plan_step *steps, int *step_count,
                         error_message *err)
{
    TRY(cli_recorded_row(arguments, path, plans, plan_count, memory, row, err));
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
    trace_run_info run;
    trace_run_plan *plans = NULL;
    int count = 0;
    ana_slurm_shrink shrink = {.manager = cli_operand(arguments, 0)};
    char origin[200];
    const char *row = NULL;
    TRY(trace_run_find(store, cli_value(arguments, "--run"), memory, &run, err));
    TRY(trace_run_plans(store, run.run_id, memory, &plans, &count, err));
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
