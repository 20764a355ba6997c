#include "sim/plan_replay.h"

#include "balance/run/gradient_reduction.h"
#include "sim/costs.h"
#include "sim/pipeline.h"

static status check(const bal_machine *machine, const bal_played_plan *played, error_message *err)
{
    const bal_placed_partition *plan = played->plan;
    const bal_schedule *schedule = played->schedule;
    TRY(bal_placed_check(plan, played->replicas[0].layer_count, machine->rank_count, "the plan",
                         err));
    if (schedule->rank_count != plan->rank_count || schedule->chunk_count != plan->chunk_count) {
        return error_set(
            err, STATUS_INVALID, "a schedule of %d ranks of %d chunks for a plan of %d ranks of %d",
            schedule->rank_count, schedule->chunk_count, plan->rank_count, plan->chunk_count);
    }
    return STATUS_OK;
}

static status play_replica(const bal_machine *machine, const bal_played_plan *played, int replica,
                           sim_order *order, arena *memory, bal_stage_costs *stages,
                           bal_timeline *timeline, error_message *err)
{
    TRY(bal_stage_costs_from_layers(&played->replicas[replica], played->plan, machine,
                                    played->rank_time_factor, memory, stages, err));
    TRY(sim_costs_check(played->schedule, stages, err));
    TRY(sim_timeline_init(played->schedule, memory, timeline));
    sim_order_play(order, stages, NULL, timeline);
    return STATUS_OK;
}

status sim_plan_replay_play(const bal_machine *machine, const bal_played_plan *played,
                            arena *memory, sim_plan_replay *replay, error_message *err)
{
    const size_t replicas = (size_t)played->replica_count;
    bal_played_plan complete = *played;
    bal_iteration_times times;
    sim_order order;
    TRY(check(machine, played, err));
    bal_stage_costs *stages = arena_array(memory, replicas, sizeof *stages);
    bal_timeline *timelines = arena_array(memory, replicas, sizeof *timelines);
    TRY(sim_order_compile(played->schedule, memory, &order, err));
    if (complete.last_backward == NULL) {
        bal_last_backwards(played->schedule, memory, &complete.last_backward);
    }
    TRY(bal_iteration_begin(&complete, memory, &times, err));
    for (int replica = 0; replica < played->replica_count; replica++) {
        TRY(play_replica(machine, played, replica, &order, memory, &stages[replica],
                         &timelines[replica], err));
        TRY(bal_iteration_add_timeline(&complete, replica, &timelines[replica], memory, &times,
                                       err));
    }
    bal_iteration_finish(&complete, &times);
    *replay = (sim_plan_replay){.times = times, .timelines = timelines, .stages = stages};
    return STATUS_OK;
}
