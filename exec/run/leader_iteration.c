/// An iteration as the leader sees it: costs out, reports in, and what they come to.
#include "exec/run/leader.h"

#include "balance/layer_costs.h"
#include "balance/metrics.h"
#include "balance/run/training_costs.h"

#include <math.h>

static bal_batch batch_of(const exec_leader *leader)
{
    const int microbatches = leader->microbatch_count;
    return (bal_batch){microbatches, microbatches};
}

/// Finds out what the iteration costs, as far as anybody knows before it has been played.
static status fetch(exec_leader *leader, int iteration, error_message *err)
{
    (void)bal_training_speeds(&leader->training, iteration, leader->rank_time_factor);
    if (leader->learns) {
        // The first measured iteration is what later ones are compared with.
        leader->is_announced = leader->reports.has_changed;
        leader->is_changed = leader->is_announced;
        return STATUS_OK;
    }
    bool is_new = false;
    TRY(bal_training_costs_fetch(&leader->costs, iteration, batch_of(leader), &is_new,
                                 &leader->is_announced, err));
    leader->is_changed =
        leader->training.sources[0].announces_changes ? leader->is_announced : is_new;
    return STATUS_OK;
}

static bool wants_profile(const exec_leader *leader, int iteration)
{
    if (!leader->learns) return leader->execution->distributes_decisions;
    return (iteration == leader->first_iteration || leader->execution->profiles_always ||
            bal_training_is_profiled(&leader->training, iteration, leader->is_announced));
}

static status give_command(exec_leader *leader, int iteration, error_message *err)
{
    exec_run *run = &leader->run;
    bool is_other = false;
    if (!leader->learns) {
        TRY(exec_run_costs_put(&run->costs, leader->costs.replicas, leader->costs.replica_count,
                               &is_other));
    }
    const exec_command command = {
        .kind = EXEC_COMMAND_ITERATE,
        .iteration = iteration,
        .has_costs = !leader->learns && (is_other || !leader->costs_told),
        .is_profiled = wants_profile(leader, iteration),
    };
    TRY(exec_run_begin_command(run, &command));
    TRY(exec_parcel_put(&run->command, leader->rank_time_factor,
                        (int64_t)run->ranks.rank_count *
                            (int64_t)sizeof *leader->rank_time_factor));
    TRY(exec_run_give_command(run, err));
    leader->costs_told = true;
    leader->has_profile = command.is_profiled;
    leader->iteration = iteration;
    return STATUS_OK;
}

/// Tells the times of ops as if they had not been stretched.
static void unstretch(const exec_leader *leader, const bal_timeline *timelines)
{
    const double scale = (double)leader->run.terms.time_scale_ppb / 1e9;
    if (leader->learns || scale == 1.0) return;
    for (int replica = 0; replica < leader->training.data_parallel; replica++) {
        const bal_timeline *timeline = &timelines[replica];
        const int ops = timeline->schedule->first_op[timeline->schedule->rank_count];
        for (int op = 0; op < ops; op++) {
            timeline->begin_ns[op] = (int64_t)round((double)timeline->begin_ns[op] / scale);
            timeline->end_ns[op] = (int64_t)round((double)timeline->end_ns[op] / scale);
        }
    }
}

/// What the parts of the iteration come to, from what ran when.
static status time_iteration(exec_leader *leader, error_message *err)
{
    const bal_training *training = &leader->training;
    const exec_run_plan *plan = exec_run_plan_in_force(&leader->run);
    const int replicas = training->data_parallel;
    bal_played_plan *played = &leader->played;
    bal_iteration_times *times = &leader->times;
    *played = (bal_played_plan){
        .plan = &plan->placed,
        .schedule = &plan->schedule,
        .last_backward = leader->last_backward,
        .replicas = leader->replicas,
        .replica_count = replicas,
        .rank_time_factor = leader->learns ? NULL : leader->rank_time_factor,
        .post_validation = training->post_validation,
        .reduction_overlap = training->reduction_overlap,
        .reduction_from = replicas,
        .reduction_to = replicas,
    };
    TRY(bal_iteration_begin(played, leader->iteration_memory, times, err));
    for (int replica = 0; replica < replicas; replica++) {
        TRY(bal_iteration_add_timeline(played, replica, &leader->reports.timelines[replica],
                                       leader->iteration_memory, times, err));
    }
    bal_iteration_finish(played, times);
    if (leader->learns) times->reduction_ns = leader->reports.reduced_ns;
    for (int rank = 0; rank < training->machine.rank_count; rank++) {
        const int place = exec_run_place_of(&plan->placed, rank);
        leader->rank_end_ns[rank] = place >= 0 ? times->rank_end_ns[place] : 0;
    }
    return STATUS_OK;
}

/// Raises the peaks of the ranks to what this iteration needs.
static status note_memory(exec_leader *leader, error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(&leader->run);
    const bal_placed_partition *placed = &plan->placed;
    const int unlike =
        leader->learns ? leader->training.data_parallel : leader->training.source_count;
    int64_t *peak = arena_array(leader->iteration_memory, (size_t)placed->rank_count, sizeof *peak);
    for (int replica = 0; replica < unlike; replica++) {
        const bal_layer_costs *layers = &leader->replicas[replica];
        bal_stage_costs stages;
        TRY(bal_stage_costs_from_layers(layers, placed, &leader->training.machine, NULL,
                                        leader->iteration_memory, &stages, err));
        bal_memory_peak(&plan->schedule, &stages, peak);
        for (int place = 0; place < placed->rank_count; place++) {
            int64_t *noted = &leader->peak_memory[placed->machine_rank[place]];
            const int64_t bytes = peak[place] + bal_placed_sum(placed, place, layers->state_bytes);
            if (bytes > *noted) *noted = bytes;
        }
    }
    return STATUS_OK;
}

/// What the controller sees of the layers: of a device that learns what was measured last.
static status profile(exec_leader *leader, int iteration, error_message *err)
{
    if (!leader->learns) {
        return bal_training_costs_measure(&leader->costs, leader->rank_of_layer, &leader->profile,
                                          err);
    }
    if (!leader->reports.has_layers) return STATUS_OK;
    const bool is_alone = leader->training.data_parallel == 1;
    const bal_replica_costs merged = {
        .iteration = iteration,
        .replicas = leader->replicas,
        .replica_count = leader->training.data_parallel,
        .column_count = is_alone ? leader->replicas[0].microbatch_count : 1,
    };
    arena_reset(leader->profile_memory);
    return bal_replica_costs_merge(&merged, leader->profile_memory, &leader->profile, err);
}

status exec_leader_iterate(exec_leader *leader, int iteration, error_message *err)
{
    exec_run *run = &leader->run;
    arena_reset(leader->iteration_memory);
    TRY(fetch(leader, iteration, err));
    TRY(give_command(leader, iteration, err));
    exec_activity_set_phase(&run->endpoint->activity, iteration, EXEC_PHASE_DECISION);
    TRY(exec_run_reports_read(&run->gathered, &run->ranks, exec_run_plan_in_force(run),
                              run->terms.layer_count, leader->layer_memory,
                              leader->iteration_memory, &leader->reports, err));
    unstretch(leader, leader->reports.timelines);
    for (int replica = 0; replica < leader->training.data_parallel; replica++) {
        leader->replicas[replica] = leader->learns ? leader->reports.layers[replica]
                                                   : exec_run_costs_of(&run->costs, replica);
    }
    TRY(time_iteration(leader, err));
    TRY(note_memory(leader, err));
    return profile(leader, iteration, err);
}
