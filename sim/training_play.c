#include "sim/training_play.h"

#include "balance/run/iteration_times.h"
#include "sim/costs.h"
#include "sim/network.h"
#include "sim/perturbation.h"
#include "sim/pipeline.h"

#include <string.h>

/// What is only needed while the replicas are played.
typedef struct play_scratch {
    sim_summary summary;
    bal_timeline timeline;   // of dispatch
    sim_network *networks;   // [replica_count]; NULL: the static engine plays
    sim_dispatch *dispatch;  // of the order, with the network of the replica at hand
    int64_t *stage_end_ns;   // [stage_count] of dispatch
    int64_t *begin_ns;       // [rank_count] of a round
    int64_t *first_begin_ns; // [rank_count] of the first round
    int64_t *busy_ns;        // [rank_count] of all rounds
} play_scratch;

static int round_count_of(const sim_play_request *request)
{
    return request->round_count > 0 ? request->round_count : 1;
}

static void allocate(const sim_play_request *request, bool needs_stage_ends, arena *memory,
                     play_scratch *scratch)
{
    const size_t stages = (size_t)bal_placed_stage_count(request->played.plan);
    const size_t ranks = (size_t)request->played.plan->rank_count;
    int64_t *sums = arena_array(memory, 3 * ranks, sizeof *sums);
    scratch->stage_end_ns = arena_array(memory, stages, sizeof *scratch->stage_end_ns);
    scratch->begin_ns = sums;
    scratch->first_begin_ns = sums + ranks;
    scratch->busy_ns = sums + 2 * ranks;
    sim_summary_init(&request->order->order, memory, &scratch->summary);
    if (!bal_machine_network_is_free(request->machine)) {
        scratch->networks =
            arena_array(memory, (size_t)request->played.replica_count, sizeof *scratch->networks);
    } else if (needs_stage_ends && request->played.plan->chunk_count > 1) {
        // Else the last op of a rank makes the gradients of its stage.
        sim_summary_ask_stage_ends(&request->order->order, memory, &scratch->summary);
    }
}

/// When the last gradients of every stage are there.
static const int64_t *stage_ends(const sim_play_request *request, const play_scratch *scratch)
{
    if (request->played.plan->chunk_count == 1) return scratch->summary.last_end_ns;
    if (scratch->networks == NULL) return scratch->summary.stage_end_ns;
    for (int stage = 0; stage < bal_placed_stage_count(request->played.plan); stage++) {
        scratch->stage_end_ns[stage] =
            scratch->timeline.end_ns[request->order->last_backward[stage]];
    }
    return scratch->stage_end_ns;
}

/// What the stages of a replica cost in every round.
static status fill_stages(const sim_play_request *request, int replica, arena *memory,
                          bal_stage_costs *stages, play_scratch *scratch, error_message *err)
{
    const bal_schedule *schedule = &request->order->schedule;
    const bal_disturbance *disturbance = request->disturbance;
    bal_stage_costs undisturbed;
    TRY(bal_stage_costs_from_layers(&request->played.replicas[replica], request->played.plan,
                                    request->machine, request->played.rank_time_factor, memory,
                                    &undisturbed, err));
    TRY(sim_costs_check(schedule, &undisturbed, err));
    if (scratch->networks != NULL) {
        sim_network *network = &scratch->networks[replica];
        sim_network_of_machine(request->machine, request->played.plan, &undisturbed, memory,
                               network);
        TRY(sim_compiled_order_dispatch(request->order, network, &scratch->dispatch, err));
    }
    for (int round = 0; round < round_count_of(request); round++) {
        bal_stage_costs *own = &stages[round * request->played.replica_count + replica];
        const bool is_drawn = disturbance != NULL && bal_disturbance_is_drawn_per_op(disturbance);
        const sim_perturbed_play play = {.iteration = request->iteration,
                                         .round = round,
                                         .replica = replica,
                                         .plan = request->played.plan};
        if (round > 0 && !is_drawn) {
            *own = stages[replica];
            continue;
        }
        *own = undisturbed;
        if (disturbance == NULL) continue;
        sim_perturb(disturbance, schedule, &play, &undisturbed, memory, own);
        TRY(sim_costs_check(schedule, own, err));
    }
    return STATUS_OK;
}

static status play_round(const sim_play_request *request, const bal_stage_costs *costs,
                         play_scratch *scratch, error_message *err)
{
    if (scratch->networks == NULL) {
        sim_order_summarise(&request->order->order, costs, scratch->begin_ns, &scratch->summary);
        return STATUS_OK;
    }
    TRY(sim_dispatch_play(scratch->dispatch, costs, NULL, scratch->begin_ns, &scratch->timeline,
                          err));
    bal_timeline_sum(&scratch->timeline, scratch->summary.first_begin_ns,
                     scratch->summary.last_end_ns, scratch->summary.busy_ns);
    return STATUS_OK;
}

/// Plays all rounds of a replica: in each a rank begins when it has ended the one before.
static status play_rounds(const sim_play_request *request, int replica,
                          const bal_stage_costs *stages, play_scratch *scratch, error_message *err)
{
    const int ranks = request->played.plan->rank_count;
    const sim_summary *summary = &scratch->summary;
    memset(scratch->begin_ns, 0, (size_t)ranks * sizeof *scratch->begin_ns);
    memset(scratch->busy_ns, 0, (size_t)ranks * sizeof *scratch->busy_ns);
    for (int round = 0; round < round_count_of(request); round++) {
        const bal_stage_costs *costs = &stages[round * request->played.replica_count + replica];
        for (int rank = 0; round > 0 && rank < ranks; rank++) {
            scratch->begin_ns[rank] = summary->last_end_ns[rank];
            if (scratch->begin_ns[rank] <= INT64_MAX / 4) continue;
            return error_set(err, STATUS_INVALID, "the ns of %d rounds do not fit 64 bits",
                             round_count_of(request));
        }
        TRY(play_round(request, costs, scratch, err));
        for (int rank = 0; rank < ranks; rank++) {
            if (round == 0) scratch->first_begin_ns[rank] = summary->first_begin_ns[rank];
            scratch->busy_ns[rank] += summary->busy_ns[rank];
        }
    }
    return STATUS_OK;
}

static status play_replica(const sim_play_request *request, int replica, arena *memory,
                           bal_stage_costs *stages, play_scratch *scratch, sim_play *play,
                           error_message *err)
{
    const bal_played_plan *played = &request->played;
    TRY(fill_stages(request, replica, memory, stages, scratch, err));
    TRY(play_rounds(request, replica, stages, scratch, err));
    const bal_replica_times times = {
        .first_begin_ns = scratch->first_begin_ns,
        .last_end_ns = scratch->summary.last_end_ns,
        .busy_ns = scratch->busy_ns,
        .stage_end_ns = bal_iteration_needs_stage_ends(played, &play->times)
                            ? stage_ends(request, scratch)
                            : NULL,
    };
    return bal_iteration_add(played, replica, &times, &play->times, err);
}

status sim_play_replicas(const sim_play_request *request, arena *memory, sim_play *play,
                         error_message *err)
{
    const size_t plays = (size_t)request->played.replica_count * (size_t)round_count_of(request);
    sim_play_request asked = *request;
    const bal_played_plan *played = &asked.played;
    sim_play made = {0};
    play_scratch scratch = {0};
    bal_stage_costs *stages = arena_array(memory, plays, sizeof *stages);
    made.stages = stages;
    asked.played.schedule = &request->order->schedule;
    asked.played.last_backward = request->order->last_backward;
    TRY(bal_iteration_begin(played, memory, &made.times, err));
    allocate(request, bal_iteration_needs_stage_ends(played, &made.times), memory, &scratch);
    for (int replica = 0; replica < request->played.replica_count; replica++) {
        TRY(play_replica(&asked, replica, memory, stages, &scratch, &made, err));
    }
    bal_iteration_finish(played, memory, &made.times);
    made.networks = scratch.networks;
    *play = made;
    return STATUS_OK;
}

status sim_play_timeline(const sim_play *play, int replica, sim_compiled_order *order,
                         arena *memory, bal_timeline *timeline, error_message *err)
{
    const bal_stage_costs *stages = &play->stages[replica];
    sim_dispatch *dispatch = NULL;
    if (play->networks != NULL) {
        TRY(sim_compiled_order_dispatch(order, &play->networks[replica], &dispatch, err));
        return sim_dispatch_play(dispatch, stages, NULL, NULL, timeline, err);
    }
    sim_timeline_init(&order->schedule, memory, timeline);
    sim_order_play(&order->order, stages, NULL, timeline);
    return STATUS_OK;
}

static status check_replay(const bal_machine *machine, const bal_played_plan *played,
                           error_message *err)
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

status sim_plan_replay_play(const bal_machine *machine, const bal_played_plan *played,
                            arena *memory, sim_plan_replay *replay, error_message *err)
{
    TRY(check_replay(machine, played, err));
    sim_compiled_order *order = arena_array(memory, 1, sizeof *order);
    bal_timeline *timelines = arena_array(memory, (size_t)played->replica_count, sizeof *timelines);
    bal_machine free_machine = *machine;
    free_machine.send = BAL_SEND_ASYNC;
    free_machine.shares_node_links = false;
    const sim_play_request request = {.played = *played, .machine = &free_machine, .order = order};
    sim_play play;
    order->schedule = *played->schedule;
    bal_last_backwards(&order->schedule, memory, &order->last_backward);
    TRY(sim_order_compile(&order->schedule, memory, &order->order, err));
    TRY(sim_play_replicas(&request, memory, &play, err));
    for (int replica = 0; replica < played->replica_count; replica++) {
        TRY(sim_play_timeline(&play, replica, order, memory, &timelines[replica], err));
    }
    *replay = (sim_plan_replay){play.times, timelines, play.stages};
    return STATUS_OK;
}
