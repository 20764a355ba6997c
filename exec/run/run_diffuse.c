/// Deciding among each other: the ranks of the pipeline run the balancer `diffusion` with what each
/// has measured of its own layers.
#include "exec/run/run_carry_out.h"

#include "balance/layer_costs.h"
#include "exec/transport/activity.h"
#include "exec/transport/distributed_diffusion.h"

/// Reads the rules behind the head of the command.
static exec_diffusion_rules take_rules(exec_run *run, const exec_diffuse_terms *terms)
{
    const bal_placed_partition *placed = &exec_run_plan_in_force(run)->placed;
    const int64_t *arrays[4] = {NULL, NULL, NULL, NULL};
    for (int array = 0; array < 4; array++) {
        if (!terms->has_array[array]) continue;
        arrays[array] =
            exec_parcel_take(&run->command, placed->rank_count * (int64_t)sizeof *arrays[array]);
    }
    return (exec_diffusion_rules){
        .layer_count = run->terms.layer_count,
        .allow_empty_stages = terms->allow_empty_stages,
        .embedding = terms->embedding,
        .head = terms->head,
        .stage_memory_bytes = arrays[0],
        .stage_inflight = arrays[1],
        .stage_time_factor_ppb = arrays[2],
        .stage_fixed_ns = arrays[3],
    };
}

/// The weights of the own layers as a controller would have them: sums of means.
static status weigh(exec_run *run, const exec_layer_report *report, bool by_parameters,
                    const int64_t **weight, error_message *err)
{
    const bal_layer_costs layers = {
        .layer_count = report->layer_count,
        .microbatch_count = report->microbatch_count,
        .forward_ns = report->forward_ns,
        .backward_input_ns = report->backward_input_ns,
        .backward_weight_ns = report->backward_weight_ns,
    };
    bal_layer_times times;
    *weight = report->parameters;
    if (by_parameters) return STATUS_OK;
    if (report->layer_count > 0 && report->forward_ns == NULL) {
        return error_set(err, STATUS_BACKEND, "layers were not profiled before a decision");
    }
    int64_t *sums = arena_array(run->scratch, (size_t)report->layer_count, sizeof *sums);
    bal_layer_times_init(&times, report->layer_count, run->scratch);
    TRY(bal_layer_times_fill(&times, &layers, err));
    for (int layer = 0; layer < report->layer_count; layer++) {
        sums[layer] = bal_layer_time_ns(&times, layer);
    }
    *weight = sums;
    return STATUS_OK;
}

/// The ranks of the pipeline in the order of their places.
static void group_places(exec_run *run, exec_group *group)
{
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    int *rank = arena_array(run->scratch, (size_t)plan->placed.rank_count, sizeof *rank);
    for (int place = 0; place < plan->placed.rank_count; place++) {
        rank[place] =
            exec_run_world_rank(&run->ranks, run->ranks.replica, plan->placed.machine_rank[place]);
    }
    *group = run->ranks.pipeline; // its channel and sequence
    group->rank = rank;
    group->self = plan->place;
}

static status decide(exec_run *run, const exec_diffuse_terms *terms, exec_diffusion_answer *decided,
                     error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    const exec_diffusion_rules rules = take_rules(run, terms);
    exec_group group;
    exec_layer_report report;
    exec_diffusion_layers own = {
        .first_layer = plan->placed.first_layer[plan->place],
        .end_layer = plan->placed.first_layer[plan->place + 1],
    };
    run->device->table->report(run->device, &report);
    TRY(weigh(run, &report, terms->by_parameters, &own.weight, err));
    own.state_bytes = report.state_bytes;
    own.activation_bytes = report.activation_bytes;
    group_places(run, &group);
    return exec_distributed_diffusion(&group, &rules, &own, run->scratch, decided, err);
}

status exec_run_diffuse(exec_run *run, const exec_command *command, error_message *err)
{
    const exec_diffuse_terms terms =
        *(const exec_diffuse_terms *)exec_parcel_take(&run->command, (int64_t)sizeof terms);
    const int place = exec_run_plan_in_force(run)->place;
    exec_diffusion_answer decided = {0};
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_DECISION);
    if (place >= 0) TRY(decide(run, &terms, &decided, err));
    const exec_diffused_answer answer = {
        .place = place, .first_layer = decided.first_layer, .end_layer = decided.end_layer};
    return exec_parcel_put(&run->answer, &answer, (int64_t)sizeof answer);
}
