#include "sim/validated_period.h"

#include "balance/run/gradient_reduction.h"
#include "sim/iterations.h"

#include <string.h>

/// What is needed while the period settles.
typedef struct settling {
    const sim_period_request *request;
    sim_update update;
    sim_iterations *iterations;
    sim_iteration iteration;
    sim_iteration_state state; // between the iterations of all replicas
    sim_iteration_state own;   // of one replica, within an iteration
    int64_t *end_ns;           // [rank_count] over the replicas
    int64_t *ready_ns;         // [rank_count] the same, reduced
    int64_t *layer_ready_ns;   // [layer_count]
    int64_t *before_ns;        // [rank_count] begins of the iteration before
} settling;

static size_t rank_bytes(const settling *of)
{
    return (size_t)of->request->played->plan->rank_count * sizeof(int64_t);
}

/// How long a norm, a number of 8 bytes, travels between neighbouring places.
static void find_hops(settling *of, arena *memory)
{
    const sim_period_request *request = of->request;
    const bal_placed_partition *plan = request->played->plan;
    int64_t *hop_ns = arena_array(memory, (size_t)plan->rank_count, sizeof *hop_ns);
    for (int place = 1; place < plan->rank_count; place++) {
        const int before = plan->machine_rank != NULL ? plan->machine_rank[place - 1] : place - 1;
        const int at = plan->machine_rank != NULL ? plan->machine_rank[place] : place;
        hop_ns[place] =
            bal_link_transfer_ns(bal_machine_link(request->machine, before, at), sizeof(double));
    }
    of->update.hop_ns = hop_ns;
}

static status prepare(settling *of, arena *memory, error_message *err)
{
    const bal_played_plan *played = of->request->played;
    const size_t ranks = (size_t)played->plan->rank_count;
    const size_t layers = (size_t)played->replicas[0].layer_count;
    of->update = (sim_update){.post_validation = true,
                              .norm_ns = of->request->validation->norm_ns,
                              .optimizer_ns = of->request->optimizer_step_ns,
                              .rollback_ns = of->request->validation->rollback_ns};
    find_hops(of, memory);
    sim_iterations_prepare(played->schedule, memory, &of->iterations);
    // With one chunk the gate is a B or BW, which waits for one behind the next rank's gate anyway.
    if (played->schedule->chunk_count > 1) {
        TRY(sim_iterations_check_validation(of->iterations, memory, err));
    }
    sim_iteration_init(played->schedule, memory, &of->iteration, &of->own);
    of->end_ns = arena_array(memory, ranks, sizeof *of->end_ns);
    of->ready_ns = arena_array(memory, ranks, sizeof *of->ready_ns);
    of->before_ns = arena_array(memory, ranks, sizeof *of->before_ns);
    of->state.begin_ns = arena_array(memory, ranks, sizeof *of->state.begin_ns);
    of->layer_ready_ns = arena_array(memory, layers, sizeof *of->layer_ready_ns);
    return STATUS_OK;
}

/// Plays all rounds of a replica from where the ranks stand.
static int64_t play_replica(settling *of, int replica)
{
    const sim_period_request *request = of->request;
    const bal_played_plan *played = request->played;
    int64_t *begin_ns = of->own.begin_ns;
    int64_t lost_ns = 0;
    memcpy(begin_ns, of->state.begin_ns, rank_bytes(of));
    of->own = of->state;
    of->own.begin_ns = begin_ns;
    for (int round = 0; round < request->round_count; round++) {
        const bal_stage_costs *costs = &request->stages[round * played->replica_count + replica];
        sim_iterations_play(of->iterations, costs, &of->update, &of->own, &of->iteration);
        if (round == 0) lost_ns = of->iteration.lost_ns;
        memcpy(begin_ns, of->iteration.last_end_ns, rank_bytes(of));
        of->own.is_unvalidated = false; // the norm is waited for once
    }
    return lost_ns;
}

static void note_replica(settling *of, int replica)
{
    const bal_played_plan *played = of->request->played;
    for (int rank = 0; rank < played->plan->rank_count; rank++) {
        const int64_t end_ns = of->iteration.last_end_ns[rank];
        if (replica == 0 || end_ns > of->end_ns[rank]) of->end_ns[rank] = end_ns;
    }
    if (of->request->reduction_ns == NULL) return;
    bal_reduction_note_ready(played->reduction_overlap, played->schedule, played->last_backward,
                             played->plan, &played->replicas[replica], of->iteration.stage_end_ns,
                             played->rank_time_factor, of->layer_ready_ns);
}

/// When the gradients of each place are there, reduced.
static void reduce(settling *of)
{
    const sim_period_request *request = of->request;
    const bal_played_plan *played = request->played;
    const bool is_exposed = played->reduction_overlap == BAL_REDUCTION_EXPOSED;
    for (int place = 0; place < played->plan->rank_count; place++) {
        int64_t reduced_ns = 0;
        of->ready_ns[place] = of->end_ns[place];
        if (request->reduction_ns == NULL) continue;
        reduced_ns =
            bal_reduction_end_ns(played->last_backward, played->plan, place, request->reduction_ns,
                                 is_exposed ? NULL : of->layer_ready_ns);
        if (is_exposed) reduced_ns += of->end_ns[place];
        if (reduced_ns > of->ready_ns[place]) of->ready_ns[place] = reduced_ns;
    }
}

/// Plays one iteration of all replicas.
static int64_t play_all(settling *of, bool fails)
{
    const bal_played_plan *played = of->request->played;
    int64_t lost_ns = 0;
    memset(of->layer_ready_ns, 0,
           (size_t)played->replicas[0].layer_count * sizeof *of->layer_ready_ns);
    memcpy(of->before_ns, of->state.begin_ns, rank_bytes(of));
    for (int replica = 0; replica < played->replica_count; replica++) {
        const int64_t lost = play_replica(of, replica);
        if (lost > lost_ns) lost_ns = lost;
        note_replica(of, replica);
    }
    reduce(of);
    sim_iterations_end(&of->update, of->ready_ns, played->plan->rank_count, fails, &of->state);
    return lost_ns;
}

status sim_validated_period(const sim_period_request *request, arena *memory, sim_period *period,
                            error_message *err)
{
    const int ranks = request->played->plan->rank_count;
    settling of = {.request = request};
    TRY(prepare(&of, memory, err));
    for (int played = 0; played < SIM_SETTLING_MAX; played++) {
        play_all(&of, false);
        if (played > 0 && sim_iterations_have_settled(of.state.begin_ns, of.before_ns, ranks))
            break;
    }
    *period =
        (sim_period){.period_ns = sim_iterations_period_ns(of.state.begin_ns, of.before_ns, ranks)};
    if (!request->fails) return STATUS_OK;
    play_all(&of, true);
    period->lost_ns = play_all(&of, false);
    return STATUS_OK;
}
