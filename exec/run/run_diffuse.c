/// Decisions of the ranks among themselves: the leader says by which rules, the ranks of the
/// pipeline run the balancer `diffusion` with what each has measured of its own layers, and the
/// leader hears the cuts.
#include "exec/run/run.h"

#include "exec/transport/activity.h"
#include "exec/transport/distributed_diffusion.h"

#include <string.h>

/// What all ranks know of the problem; after it in the command those of the arrays of stages that
/// the flags name, in their order.
typedef struct exec_diffuse_terms {
    bool allow_empty_stages;
    bool embedding;
    bool head;
    bool by_parameters; // layers are weighed by them; else by time
    bool has_array[4];  // stage_memory_bytes, stage_inflight, stage_time_factor_ppb,
                        // stage_fixed_ns: [places] each
} exec_diffuse_terms;

/// What a place has decided; place -1 of a leader whose rank has been released.
typedef struct exec_diffused_answer {
    int64_t place;
    int64_t first_layer;
    int64_t end_layer;
} exec_diffused_answer;

/// Reads the rules after the head of the command.
static exec_diffusion_rules take_rules(exec_run *run, const exec_diffuse_terms *terms)
{
    const bal_placed_partition *placed = &exec_run_plan_in_force(run)->placed;
    const int64_t *arrays[4] = {NULL, NULL, NULL, NULL};
    for (int array = 0; array < 4; array++) {
        if (!terms->has_array[array]) continue;
        arrays[array] =
            exec_packet_take(&run->command, placed->rank_count * (int64_t)sizeof *arrays[array]);
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
        *(const exec_diffuse_terms *)exec_packet_take(&run->command, (int64_t)sizeof terms);
    const int place = exec_run_plan_in_force(run)->place;
    exec_diffusion_answer decided = {0};
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_DECISION);
    if (place >= 0) TRY(decide(run, &terms, &decided, err));
    const exec_diffused_answer answer = {
        .place = place, .first_layer = decided.first_layer, .end_layer = decided.end_layer};
    exec_packet_put(&run->answer, &answer, (int64_t)sizeof answer);
    return STATUS_OK;
}

/// Whether the problem is that of the layers that the ranks have measured, on the places in force.
static bool is_at_hand(const exec_leader *leader, const bal_problem *problem)
{
    const exec_run_plan *plan = exec_run_plan_in_force(&leader->run);
    return leader->is_controlled && leader->has_profile &&
           plan->placed.rank_count == problem->stage_count && problem->stage_count > 0 &&
           plan->placed.chunk_count == 1 && problem->weight != BAL_WEIGHT_LAYERS;
}

static status give_command(exec_leader *leader, const bal_problem *problem, error_message *err)
{
    exec_run *run = &leader->run;
    const exec_command command = {.kind = EXEC_COMMAND_DIFFUSE, .iteration = leader->iteration};
    const int64_t *arrays[] = {problem->stage_memory_bytes, problem->stage_inflight,
                               problem->stage_time_factor_ppb, problem->stage_fixed_ns};
    exec_diffuse_terms terms = {
        .allow_empty_stages = problem->allow_empty_stages,
        .embedding = problem->layers.embedding,
        .head = problem->layers.head,
        .by_parameters = problem->weight == BAL_WEIGHT_PARAMETERS,
    };
    for (int array = 0; array < 4; array++) {
        terms.has_array[array] = arrays[array] != NULL;
    }
    exec_run_begin_command(run, &command);
    exec_packet_put(&run->command, &terms, (int64_t)sizeof terms);
    for (int array = 0; array < 4; array++) {
        if (arrays[array] == NULL) continue;
        exec_packet_put(&run->command, arrays[array],
                        problem->stage_count * (int64_t)sizeof *arrays[array]);
    }
    return exec_run_give_command(run, err);
}

static status hear_cuts(void *context, const bal_problem *problem, int *first_layer,
                        bool *has_decided, error_message *err)
{
    exec_leader *leader = context;
    const exec_gathered *gathered = &leader->run.gathered;
    int64_t offset = 0;
    *has_decided = false;
    if (!is_at_hand(leader, problem)) return STATUS_OK;
    TRY(give_command(leader, problem, err));
    for (int index = 0; index < gathered->group->rank_count; index++) {
        exec_packet packet = exec_gathered_next(gathered, index, &offset);
        const exec_diffused_answer *answer = exec_packet_take(&packet, (int64_t)sizeof *answer);
        if (answer->place < 0) continue;
        first_layer[answer->place] = (int)answer->first_layer;
        first_layer[answer->place + 1] = (int)answer->end_layer;
    }
    *has_decided = true;
    return STATUS_OK;
}

status exec_leader_distribute(exec_leader *leader, error_message *err)
{
    const bal_training *training = &leader->training;
    const char *against =
        strcmp(training->balancer->name, "diffusion") != 0 ? "another balancer than diffusion"
        : training->data_parallel > 1                      ? "several replicas"
        : training->weight == BAL_WEIGHT_TIME_TRANSFER     ? "weighing by transfers"
        : training->information != BAL_INFORMATION_PROFILE ? "other loads than the profile's"
        : training->policy.kind == BAL_POLICY_SHADOW       ? "the policy shadow"
        : training->repack.kind != BAL_REPACK_NONE         ? "re-packing"
                                                           : NULL;
    if (against != NULL) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "ranks decide among themselves on what each has measured of its own "
                         "layers: not with %s",
                         against);
    }
    leader->diffuser = (bal_diffuser){.context = leader, .cuts = hear_cuts};
    leader->training.diffuser = &leader->diffuser;
    return STATUS_OK;
}
