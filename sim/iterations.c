#include "sim/iterations.h"

#include "balance/run/iteration_times.h"
#include "sim/network.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { NOT_YET = -1 };

struct sim_iterations {
    const bal_schedule *schedule;
    int stage_count;
    const int *gate;     // [rank_count] first op that is not an F of chunk 0; first_op[rank + 1]
                         // where there is none
    int *next;           // [rank_count] scratch: index into the ops
    int64_t *free_ns;    // [rank_count] scratch: end of the rank's last op
    int64_t *seen_ns;    // [rank_count] scratch: when the full norm was seen; NOT_YET
    int64_t *arrival_ns; // [2][stage_count][microbatch_count] scratch, by direction and sender;
                         // NOT_YET
    int *waiting;        // [rank_count] scratch: ranks to go on with, a stack
    bool *is_waiting;    // [rank_count]
    int waiting_count;
};

/// A play under way.
typedef struct play {
    sim_iterations *of;
    const bal_stage_costs *costs;
    const sim_update *update;
    const sim_iteration_state *state;
    sim_iteration *iteration;
    bool is_gated;  // ops after the first forwards wait for the full norm
    bool is_warmup; // only the forwards before the gates are played
} play;

static int64_t hop_ns(const sim_update *update, int rank)
{
    return update->hop_ns != NULL ? update->hop_ns[rank] : 0;
}

static int64_t *arrival_of(const sim_iterations *iterations, bool is_forward, int sender,
                           int microbatch)
{
    const int64_t row = (is_forward ? 0 : iterations->stage_count) + sender;
    return &iterations->arrival_ns[row * iterations->schedule->microbatch_count + microbatch];
}

static int64_t op_ns(const bal_stage_costs *costs, bal_op op, int stage)
{
    const int column = costs->microbatch_count > 1 ? op.microbatch : 0;
    const int64_t at = (int64_t)stage * costs->microbatch_count + column;
    switch (op.kind) {
    case OP_FORWARD:
        return costs->forward_ns[at];
    case OP_BACKWARD_INPUT:
        return costs->backward_input_ns[at];
    case OP_BACKWARD_WEIGHT:
        return costs->backward_weight_ns[at];
    default:
        return costs->backward_input_ns[at] + costs->backward_weight_ns[at];
    }
}

static void wake(sim_iterations *iterations, int rank)
{
    if (iterations->is_waiting[rank]) return;
    iterations->is_waiting[rank] = true;
    iterations->waiting[iterations->waiting_count++] = rank;
}

/// Lets the message of an op arrive, where one is sent.
static void send_from(play *playing, int rank, bal_op op, int stage, int64_t end_ns)
{
    sim_iterations *iterations = playing->of;
    const bal_schedule *schedule = iterations->schedule;
    const bal_stage_costs *costs = playing->costs;
    const bool is_forward = op.kind == OP_FORWARD;
    if (op.kind == OP_BACKWARD_WEIGHT) return;
    const int receiver = is_forward
                             ? bal_stage_behind(schedule->placement, schedule->rank_count,
                                                schedule->chunk_count, stage)
                             : bal_stage_before(schedule->placement, schedule->rank_count, stage);
    if (receiver < 0) return;
    const int to = bal_schedule_rank(schedule, receiver);
    int64_t arrival_ns = end_ns;
    if (to != rank) {
        arrival_ns += is_forward ? costs->send_forward_ns[stage] : costs->send_backward_ns[stage];
        arrival_ns +=
            sim_network_delay_ns(schedule, costs, (bal_op_kind)op.kind, stage, op.microbatch);
        wake(iterations, to);
    }
    *arrival_of(iterations, is_forward, stage, op.microbatch) = arrival_ns;
}

/// When the message that an op waits for is there: 0 if it waits for none, NOT_YET.
static int64_t arrived_ns(const play *playing, int rank, bal_op op)
{
    bal_op_kind kind = OP_FORWARD;
    const int sender = bal_op_waits_for(playing->of->schedule, rank, op, &kind);
    if (sender < 0) return 0;
    return *arrival_of(playing->of, kind == OP_FORWARD, sender, op.microbatch);
}

/// Passes the full norm through a rank that stands at its gate. False if it is not there yet.
static bool pass_gate(play *playing, int rank)
{
    sim_iterations *iterations = playing->of;
    const int last = iterations->schedule->rank_count - 1;
    int64_t value_ns = playing->state->validated_ns;
    if (iterations->seen_ns[rank] != NOT_YET) return true;
    if (rank < last) {
        if (iterations->seen_ns[rank + 1] == NOT_YET) return false;
        value_ns = iterations->seen_ns[rank + 1] + hop_ns(playing->update, rank + 1);
    }
    int64_t *free_ns = &iterations->free_ns[rank];
    if (value_ns > *free_ns) *free_ns = value_ns;
    iterations->seen_ns[rank] = *free_ns;
    if (rank > 0) wake(iterations, rank - 1);
    return true;
}

static void note_op(play *playing, int rank, int index, int64_t begin_ns, int64_t end_ns)
{
    const bal_schedule *schedule = playing->of->schedule;
    sim_iteration *iteration = playing->iteration;
    const bal_op op = schedule->ops[index];
    if (index == schedule->first_op[rank]) iteration->first_begin_ns[rank] = begin_ns;
    iteration->last_end_ns[rank] = end_ns;
    iteration->busy_ns[rank] += end_ns - begin_ns;
    if (op.kind == OP_BACKWARD_WEIGHT || op.kind == OP_BACKWARD) {
        iteration->stage_end_ns[bal_schedule_stage(schedule, rank, op.chunk)] = end_ns;
    }
    if (iteration->timeline == NULL) return;
    iteration->timeline->begin_ns[index] = begin_ns;
    iteration->timeline->end_ns[index] = end_ns;
}

/// Plays an op, or a pair of overlapped ones: their messages leave when both have ended.
static void play_piece(play *playing, int rank, int first, int last, int64_t there_ns)
{
    const bal_schedule *schedule = playing->of->schedule;
    int64_t *free_ns = &playing->of->free_ns[rank];
    if (there_ns > *free_ns) *free_ns = there_ns;
    for (int index = first; index <= last; index++) {
        const bal_op op = schedule->ops[index];
        const int64_t begin_ns = *free_ns;
        *free_ns += op_ns(playing->costs, op, bal_schedule_stage(schedule, rank, op.chunk));
        if (!playing->is_warmup) note_op(playing, rank, index, begin_ns, *free_ns);
    }
    for (int index = first; index <= last; index++) {
        const bal_op op = schedule->ops[index];
        send_from(playing, rank, op, bal_schedule_stage(schedule, rank, op.chunk), *free_ns);
    }
}

/// Plays ops of a rank until one waits for what is not there.
static void advance(play *playing, int rank)
{
    sim_iterations *iterations = playing->of;
    const bal_schedule *schedule = iterations->schedule;
    const int gate = iterations->gate[rank];
    const int stop = playing->is_warmup ? gate : schedule->first_op[rank + 1];
    for (int *next = &iterations->next[rank]; *next < stop;) {
        const int first = *next;
        const int last = first + schedule->ops[first].overlaps_next;
        if (playing->is_gated && last >= gate && !pass_gate(playing, rank)) return;
        int64_t there_ns = 0;
        for (int index = first; index <= last; index++) {
            const int64_t arrived = arrived_ns(playing, rank, schedule->ops[index]);
            if (arrived == NOT_YET) return;
            if (arrived > there_ns) there_ns = arrived;
        }
        play_piece(playing, rank, first, last, there_ns);
        *next = last + 1;
    }
}

/// Puts everything where it is before the iteration and lets the ranks go as far as they can.
static void run(play *playing)
{
    sim_iterations *iterations = playing->of;
    const bal_schedule *schedule = iterations->schedule;
    const int ranks = schedule->rank_count;
    const size_t messages =
        2 * (size_t)iterations->stage_count * (size_t)schedule->microbatch_count;
    memset(iterations->arrival_ns, 0xff, messages * sizeof *iterations->arrival_ns); // NOT_YET
    iterations->waiting_count = 0;
    for (int rank = ranks - 1; rank >= 0; rank--) {
        iterations->next[rank] = schedule->first_op[rank];
        iterations->free_ns[rank] = playing->state->begin_ns[rank];
        iterations->seen_ns[rank] = NOT_YET;
        iterations->is_waiting[rank] = false;
        wake(iterations, rank);
    }
    while (iterations->waiting_count > 0) {
        const int rank = iterations->waiting[--iterations->waiting_count];
        iterations->is_waiting[rank] = false;
        advance(playing, rank);
    }
}

static bool is_done(const sim_iterations *iterations, int *rank)
{
    const bal_schedule *schedule = iterations->schedule;
    for (*rank = 0; *rank < schedule->rank_count; ++*rank) {
        if (iterations->next[*rank] < schedule->first_op[*rank + 1]) return false;
    }
    return true;
}

/// Finds the op of each rank that waits for the full norm.
static void find_gates(const bal_schedule *schedule, int *gate)
{
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        int op = schedule->first_op[rank];
        while (op < schedule->first_op[rank + 1] && schedule->ops[op].kind == OP_FORWARD &&
               schedule->ops[op].chunk == 0 && schedule->ops[op].overlaps_next == 0) {
            op++;
        }
        gate[rank] = op;
    }
}

void sim_iterations_prepare(const bal_schedule *schedule, arena *memory, sim_iterations **out)
{
    const size_t ranks = (size_t)schedule->rank_count;
    const size_t stages = ranks * (size_t)schedule->chunk_count;
    const size_t messages = 2 * stages * (size_t)schedule->microbatch_count;
    sim_iterations *made = arena_array(memory, 1, sizeof *made);
    int *gate = arena_array(memory, ranks, sizeof *gate);
    *made = (sim_iterations){
        .schedule = schedule,
        .stage_count = (int)stages,
        .gate = gate,
        .next = arena_array(memory, ranks, sizeof *made->next),
        .free_ns = arena_array(memory, ranks, sizeof *made->free_ns),
        .seen_ns = arena_array(memory, ranks, sizeof *made->seen_ns),
        .arrival_ns = arena_array(memory, messages, sizeof *made->arrival_ns),
        .waiting = arena_array(memory, ranks, sizeof *made->waiting),
        .is_waiting = arena_array(memory, ranks, sizeof *made->is_waiting),
    };
    find_gates(schedule, gate);
    *out = made;
}

status sim_iterations_check_validation(sim_iterations *iterations, arena *memory,
                                       error_message *err)
{
    const size_t stages = (size_t)iterations->stage_count;
    const int64_t *free_of_charge = arena_array(memory, stages, sizeof *free_of_charge);
    sim_iteration iteration;
    sim_iteration_state state;
    int blocked = 0;
    sim_iteration_init(iterations->schedule, memory, &iteration, &state);
    const bal_stage_costs costs = {
        .stage_count = iterations->stage_count,
        .microbatch_count = 1,
        .forward_ns = free_of_charge,
        .backward_input_ns = free_of_charge,
        .backward_weight_ns = free_of_charge,
        .send_forward_ns = free_of_charge,
        .send_backward_ns = free_of_charge,
    };
    const sim_update update = {.post_validation = true};
    // All ops are free of charge: only whether every rank gets past its gate is asked.
    play playing = {.of = iterations,
                    .costs = &costs,
                    .update = &update,
                    .state = &state,
                    .iteration = &iteration,
                    .is_gated = true};
    run(&playing);
    if (is_done(iterations, &blocked)) return STATUS_OK;
    char name[32];
    const int index = iterations->next[blocked];
    bal_op_name(iterations->schedule->ops[index], name);
    return error_set(err, STATUS_INVALID,
                     "schedule %s cannot validate behind the step: rank %d waits before its %s "
                     "for a norm that comes back only after it",
                     iterations->schedule->name, blocked, name);
}

void sim_iteration_init(const bal_schedule *schedule, arena *memory, sim_iteration *iteration,
                        sim_iteration_state *state)
{
    const size_t ranks = (size_t)schedule->rank_count;
    const size_t stages = ranks * (size_t)schedule->chunk_count;
    int64_t *times = arena_array(memory, 4 * ranks + stages, sizeof *times);
    *state = (sim_iteration_state){.begin_ns = times};
    *iteration = (sim_iteration){
        .first_begin_ns = times + ranks,
        .last_end_ns = times + 2 * ranks,
        .busy_ns = times + 3 * ranks,
        .stage_end_ns = times + 4 * ranks,
    };
}

static int64_t largest(const int64_t *values, int count)
{
    int64_t found = values[0];
    for (int index = 1; index < count; index++) {
        if (values[index] > found) found = values[index];
    }
    return found;
}

/// The ranks begin, see that the norm is above the limit, undo their step and step again.
static int64_t undo(play *playing, sim_iteration_state *state)
{
    sim_iterations *iterations = playing->of;
    const int ranks = iterations->schedule->rank_count;
    const sim_update *update = playing->update;
    const int64_t began_ns = largest(state->begin_ns, ranks);
    playing->is_warmup = true;
    run(playing);
    iterations->seen_ns[ranks - 1] = state->validated_ns; // its step has waited for the norm
    state->begin_ns[ranks - 1] = state->validated_ns + update->optimizer_ns;
    for (int rank = ranks - 2; rank >= 0; rank--) {
        iterations->seen_ns[rank] = NOT_YET;
        pass_gate(playing, rank);
        state->begin_ns[rank] =
            iterations->seen_ns[rank] + update->rollback_ns + update->optimizer_ns;
    }
    playing->is_warmup = false;
    return largest(state->begin_ns, ranks) - began_ns;
}

void sim_iterations_play(sim_iterations *iterations, const bal_stage_costs *costs,
                         const sim_update *update, sim_iteration_state *state,
                         sim_iteration *iteration)
{
    const size_t ranks = (size_t)iterations->schedule->rank_count;
    play playing = {
        .of = iterations, .costs = costs, .update = update, .state = state, .iteration = iteration};
    int blocked = 0;
    memset(iteration->busy_ns, 0, ranks * sizeof *iteration->busy_ns);
    iteration->lost_ns = 0;
    if (state->is_unvalidated && state->has_failed) {
        iteration->lost_ns = undo(&playing, state);
        state->is_unvalidated = false;
    }
    playing.is_gated = state->is_unvalidated;
    run(&playing);
    assert(is_done(iterations, &blocked)); // the schedule is right
}

void sim_iterations_end(const sim_update *update, const int64_t *ready_ns, int rank_count,
                        bool fails, sim_iteration_state *state)
{
    state->is_unvalidated = update->post_validation;
    state->has_failed = fails;
    int64_t partial_ns = update->post_validation ? INT64_MIN : largest(ready_ns, rank_count);
    for (int rank = 0; rank < rank_count; rank++) {
        if (update->post_validation) {
            const int64_t own_ns = ready_ns[rank] + update->norm_ns;
            if (rank > 0) partial_ns += hop_ns(update, rank);
            if (rank == 0 || own_ns > partial_ns) partial_ns = own_ns;
        } else if (rank == 0) {
            partial_ns += update->norm_ns;
        }
        state->begin_ns[rank] = partial_ns + update->optimizer_ns;
    }
    state->validated_ns = partial_ns;
}

bool sim_iterations_have_settled(const int64_t *begin_ns, const int64_t *before_ns, int rank_count)
{
    for (int rank = 1; rank < rank_count; rank++) {
        if (begin_ns[rank] - before_ns[rank] != begin_ns[0] - before_ns[0]) return false;
    }
    return true;
}

int64_t sim_iterations_period_ns(const int64_t *begin_ns, const int64_t *before_ns, int rank_count)
{
    return largest(begin_ns, rank_count) - largest(before_ns, rank_count);
}

status sim_iterations_find_period(sim_iterations *iterations, const bal_stage_costs *costs,
                                  const sim_update *update, arena *memory, int64_t *period_ns,
                                  error_message *err)
{
    const bal_schedule *schedule = iterations->schedule;
    const int ranks = schedule->rank_count;
    sim_iteration iteration;
    sim_iteration_state state;
    int64_t *before_ns = arena_array(memory, (size_t)ranks, sizeof *before_ns);
    sim_iteration_init(schedule, memory, &iteration, &state);
    for (int played = 0; played < SIM_SETTLING_MAX; played++) {
        memcpy(before_ns, state.begin_ns, (size_t)ranks * sizeof *before_ns);
        sim_iterations_play(iterations, costs, update, &state, &iteration);
        if (largest(iteration.last_end_ns, ranks) > SIM_ITERATIONS_NS_MAX) {
            return error_set(err, STATUS_INVALID,
                             "iterations back to back are longer than %" PRId64 " ns",
                             SIM_ITERATIONS_NS_MAX);
        }
        sim_iterations_end(update, iteration.last_end_ns, ranks, false, &state);
        if (played > 0 && sim_iterations_have_settled(state.begin_ns, before_ns, ranks)) break;
    }
    *period_ns = sim_iterations_period_ns(state.begin_ns, before_ns, ranks);
    return STATUS_OK;
}

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
    // With one chunk the gate is a B or BW, which waits for one after the next rank's gate anyway.
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
