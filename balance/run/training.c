#include "balance/run/training.h"

#include "balance/control/policy.h"
#include "balance/costs/layer_costs.h"
#include "balance/schedule/schedule.h"

#include <assert.h>

const char *const bal_reduction_overlap_names[BAL_REDUCTION_OVERLAP_COUNT] = {
    [BAL_REDUCTION_EXPOSED] = "none",
    [BAL_REDUCTION_STAGE] = "stage",
    [BAL_REDUCTION_BACKWARD] = "backward",
};

status bal_training_check(const bal_training *training, error_message *err)
{
    assert(training->iteration_count >= 1 && training->round_count >= 0);
    assert(training->source_count >= 1 && training->source_count <= training->data_parallel);
    assert(training->machine.rank_count >= 1 && training->machine.rank_count <= BAL_RANKS_MAX);
    if (bal_schedule_family_find(training->schedule) == NULL) {
        return error_set(err, STATUS_INVALID, "unknown schedule '%.40s'", training->schedule);
    }
    if (bal_schedule_family_find(training->schedule)->placement == BAL_PLACEMENT_BIDIRECTIONAL) {
        return error_set(err, STATUS_INVALID,
                         "schedule %s keeps two copies of the weights; training runs have one",
                         training->schedule);
    }
    if (bal_disturbance_is_drawn_per_op(&training->disturbance) &&
        training->data_parallel > BAL_DRAWN_REPLICAS_MAX) {
        return error_set(err, STATUS_INVALID, "data_parallel %d of drawn times is above %d",
                         training->data_parallel, BAL_DRAWN_REPLICAS_MAX);
    }
    return STATUS_OK;
}

status bal_training_controller(const bal_training *training, const bal_evaluator *evaluator,
                               arena *memory, bal_controller **out, error_message *err)
{
    const bal_controller_options options = {
        .balancer = training->balancer,
        .weight = training->weight,
        .policy = training->policy,
        .information = training->information,
        .announces_changes = training->sources[0].announces_changes,
        .change_ratio = training->change_ratio,
        .machine = training->machine,
        .schedule = training->schedule,
        .chunk_count = training->chunk_count,
        .microbatch_count = training->microbatch_count,
        .replica_count = training->data_parallel,
        .layer_count = training->sources[0].layer_count,
        .decision_ns = training->decision_ns,
        .evaluator = evaluator,
        .diffuser = training->diffuser,
        .given_first_layer = training->given_first_layer,
        .migration = training->migration,
        .repack = training->repack,
        .peak_book = training->peak_book,
        .plan_book = training->plan_book,
        .skips_bound = training->skips_bound,
    };
    return bal_controller_create(&options, memory, out, err);
}

bool bal_training_is_profiled(const bal_training *training, int iteration, bool is_announced)
{
    const bal_policy policy = training->policy;
    if (training->balancer->is_static || policy.kind == BAL_POLICY_NEVER) return false;
    if (policy.kind == BAL_POLICY_SHADOW) return true;
    if (policy.kind == BAL_POLICY_ON_CHANGE && !training->sources[0].announces_changes) return true;
    return bal_policy_asks(policy, iteration, is_announced);
}

bool bal_training_has_slow_ranks(const bal_training *training)
{
    return training->slow_rank_count > 0 ||
           bal_disturbance_has_rank_factors(&training->disturbance);
}

void bal_training_speeds(const bal_training *training, int iteration, double *rank_time_factor)
{
    for (int rank = 0; rank < training->machine.rank_count; rank++) {
        rank_time_factor[rank] = 1.0;
    }
    for (int slow = 0; slow < training->slow_rank_count; slow++) {
        const bal_slow_rank *entry = &training->slow_ranks[slow];
        if (iteration < entry->first_iteration || iteration >= entry->end_iteration) continue;
        assert(entry->rank < training->machine.rank_count && entry->time_factor > 0);
        rank_time_factor[entry->rank] *= entry->time_factor;
    }
    bal_disturbance_slow_ranks(&training->disturbance, training->machine.rank_count, iteration,
                               rank_time_factor);
}

bal_gpu_layout bal_training_gpu_layout(const bal_training *training)
{
    const int per_rank = training->gpus_per_rank > 0 ? training->gpus_per_rank : 1;
    return (bal_gpu_layout){
        .rank_count = training->machine.rank_count,
        .replica_count = training->data_parallel,
        .gpus_per_rank = per_rank,
        .gpus_per_node = training->machine.ranks_per_node * per_rank,
    };
}

/// What a searched schedule may fill with activations: a rank's memory less its state.
static void activation_limits(const bal_machine *machine, const bal_placed_partition *placed,
                              const bal_layer_costs *layers, arena *memory, const int64_t **limits)
{
    *limits = NULL;
    if (machine->rank_memory_bytes == 0) return;
    int64_t *room = arena_array(memory, (size_t)placed->rank_count, sizeof *room);
    for (int place = 0; place < placed->rank_count; place++) {
        room[place] =
            machine->rank_memory_bytes - bal_placed_sum(placed, place, layers->state_bytes);
        if (room[place] < 0) room[place] = 0;
    }
    *limits = room;
}

/// Adds what a search looks at: the costs of the stages and the room for activations.
static status add_costs(const bal_machine *machine, const bal_placed_partition *placed,
                        const bal_layer_costs *layers, arena *memory, bal_schedule_request *request,
                        error_message *err)
{
    bal_layer_costs like = *layers;
    bal_stage_costs *stages = arena_array(memory, 1, sizeof *stages);
    if (layers->microbatch_count != 1 && layers->microbatch_count != request->microbatch_count) {
        TRY(bal_layer_costs_mean(layers, memory, &like, err));
    }
    TRY(bal_stage_costs_from_layers(&like, placed, machine, NULL, memory, stages, err));
    activation_limits(machine, placed, &like, memory, &request->memory_limit);
    request->costs = stages;
    return STATUS_OK;
}

status bal_training_order_request(const bal_training *training, const bal_placed_partition *placed,
                                  const bal_layer_costs *layers, int microbatch_count,
                                  arena *memory, bal_schedule_request *request, error_message *err)
{
    bal_schedule_request made = {
        .name = training->schedule,
        .rank_count = placed->rank_count,
        .microbatch_count = microbatch_count,
        .chunk_count = placed->chunk_count,
    };
    if (bal_schedule_family_find(training->schedule)->is_searched) {
        TRY(add_costs(&training->machine, placed, layers, memory, &made, err));
    }
    *request = made;
    return STATUS_OK;
}

status bal_training_order(const bal_training *training, const bal_placed_partition *placed,
                          const bal_layer_costs *layers, int microbatch_count, arena *memory,
                          bal_schedule *schedule, error_message *err)
{
    bal_schedule_request request;
    TRY(bal_training_order_request(training, placed, layers, microbatch_count, memory, &request,
                                   err));
    return bal_schedule_build(&request, memory, schedule, err);
}
