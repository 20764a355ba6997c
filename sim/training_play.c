#include "sim/training_play.h"

#include "sim/costs.h"
#include "sim/pipeline.h"

/// What is only needed while the replicas are played.
typedef struct play_scratch {
    sim_summary summary;
    bal_timeline timeline; // only where chunks end before their rank does
    int64_t *stage_end_ns; // [stage_count]
} play_scratch;

static status no_memory(const sim_play_request *request, error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory for %d replicas of %d ranks",
                     request->replica_count, request->plan->rank_count);
}

static bal_played_plan played_plan_of(const sim_play_request *request)
{
    return (bal_played_plan){
        .plan = request->plan,
        .schedule = &request->order->schedule,
        .last_backward = request->order->last_backward,
        .replicas = request->replicas,
        .replica_count = request->replica_count,
        .rank_time_factor = request->rank_time_factor,
        .post_validation = request->post_validation,
        .reduction_overlap = request->reduction_overlap,
        .reduction_from = request->reduction_from,
        .reduction_to = request->reduction_to,
    };
}

static status allocate(const sim_play_request *request, bool needs_stage_ends, arena *memory,
                       play_scratch *scratch, error_message *err)
{
    const size_t stages = (size_t)bal_placed_stage_count(request->plan);
    scratch->stage_end_ns = arena_array(memory, stages, sizeof *scratch->stage_end_ns);
    if (scratch->stage_end_ns == NULL) return no_memory(request, err);
    TRY(sim_summary_init(&request->order->order, memory, &scratch->summary, err));
    if (!needs_stage_ends || request->plan->chunk_count == 1) return STATUS_OK;
    return sim_timeline_init(&request->order->schedule, memory, &scratch->timeline, err);
}

/// When the last gradients of every stage are there.
static void find_stage_ends(const sim_play_request *request, const bal_stage_costs *stages,
                            play_scratch *scratch)
{
    sim_compiled_order *order = request->order;
    if (request->plan->chunk_count > 1) {
        sim_order_play(&order->order, stages, NULL, &scratch->timeline);
    }
    for (int stage = 0; stage < stages->stage_count; stage++) {
        scratch->stage_end_ns[stage] =
            request->plan->chunk_count > 1
                ? scratch->timeline.end_ns[order->last_backward[stage]]
                : scratch->summary.last_end_ns[stage]; // the last op of a rank makes gradients
    }
}

static status play_replica(const sim_play_request *request, const bal_played_plan *played,
                           int replica, arena *memory, bal_stage_costs *stages,
                           play_scratch *scratch, sim_play *play, error_message *err)
{
    sim_compiled_order *order = request->order;
    const sim_summary *summary = &scratch->summary;
    TRY(bal_stage_costs_from_layers(&request->replicas[replica], request->plan, request->machine,
                                    request->rank_time_factor, memory, stages, err));
    TRY(sim_costs_check(&order->schedule, stages, err));
    sim_order_summarise(&order->order, stages, NULL, &scratch->summary);
    if (bal_iteration_needs_stage_ends(played, &play->times)) {
        find_stage_ends(request, stages, scratch);
    }
    const bal_replica_times times = {
        .first_begin_ns = summary->first_begin_ns,
        .last_end_ns = summary->last_end_ns,
        .busy_ns = summary->busy_ns,
        .stage_end_ns = scratch->stage_end_ns,
    };
    return bal_iteration_add(played, replica, &times, &play->times, err);
}

status sim_play_replicas(const sim_play_request *request, arena *memory, sim_play *play,
                         error_message *err)
{
    const bal_played_plan played = played_plan_of(request);
    sim_play made = {0};
    play_scratch scratch = {0};
    bal_stage_costs *stages = arena_array(memory, (size_t)request->replica_count, sizeof *stages);
    if (stages == NULL) return no_memory(request, err);
    made.stages = stages;
    TRY(bal_iteration_begin(&played, memory, &made.times, err));
    TRY(allocate(request, bal_iteration_needs_stage_ends(&played, &made.times), memory, &scratch,
                 err));
    for (int replica = 0; replica < request->replica_count; replica++) {
        TRY(play_replica(request, &played, replica, memory, &stages[replica], &scratch, &made,
                         err));
    }
    bal_iteration_finish(&played, &made.times);
    *play = made;
    return STATUS_OK;
}
