/// The plainest player of a schedule on a network: goes from moment to moment, looks at every op
/// and every rank at each, and knows no queue. The oracle of the event engine.
///
/// At a moment, first all ops that end now end, in the order of their ranks, and send; then
/// messages begin for which both ranks are at rest, in the order of the senders; then every rank
/// that is free decides. Ops that take no time end at the same moment, all that over again.
#pragma once

#include "sim/dispatch.h"
#include "sim/policy.h"
#include "tests/balance/reference_player.h"
#include "tests/test_memory.h"

enum { NONE = -1 };

/// What has become of one op of the schedule.
typedef struct reference_op {
    int rank;
    int stage;
    int sender;       // op whose message it waits for, or NONE
    int receiver;     // op that waits for its message, or NONE
    int64_t begin_ns; // NONE: not yet
    int64_t end_ns;   // the same
    bool has_ended;
    bool is_offered;    // rendezvous: its message waits to be received
    int64_t arrival_ns; // of the message that it waits for; NONE: not known
    int arrival_order;  // how many messages were sent before that one
} reference_op;

typedef struct reference_state {
    const bal_schedule *schedule;
    const bal_stage_costs *costs;
    const sim_network *network;
    const int64_t *memory_limit; // NULL: none
    const sim_claim *claims;     // [stage_count]
    sim_policy policy;
    int64_t now_ns;
    int sent_count;
    reference_op *ops;        // [op_count]
    int *running;             // [rank_count] op or NONE
    int64_t *busy_until_ns;   // [rank_count] by messages
    const int64_t *start_ns;  // [rank_count] NULL: 0
    int64_t *claimed;         // [rank_count]
    int64_t *link_free_ns;    // [link_count]
    int *played_count;        // [rank_count]
    bal_op *played_ops;       // [op_count] from first_op of each rank
    int64_t *played_begin_ns; // the same
    int64_t *played_end_ns;
} reference_state;

static inline int reference_find(const bal_schedule *schedule, int stage, bool is_forward,
                                 int microbatch)
{
    int chunk = 0;
    const int rank = bal_rank_of_stage(schedule->placement, schedule->rank_count,
                                       schedule->chunk_count, stage, &chunk);
    for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
        const bal_op op = schedule->ops[index];
        if (op.kind == OP_BACKWARD_WEIGHT || op.chunk != chunk) continue;
        if ((op.kind == OP_FORWARD) == is_forward && op.microbatch == microbatch) return index;
    }
    fail_msg("no such op");
    return NONE;
}

/// Connects every F and B with the op whose message it waits for: of the stage before or after, or
/// B of the last stage with its own F.
static inline void reference_connect(const reference_state *state)
{
    const bal_schedule *schedule = state->schedule;
    const bool has_copies = schedule->placement == BAL_PLACEMENT_BIDIRECTIONAL;
    const int ranks = schedule->rank_count;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            const bal_op op = schedule->ops[index];
            const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                           schedule->chunk_count, rank, op.chunk);
            reference_op *at = &state->ops[index];
            at->rank = rank;
            at->stage = stage;
            at->sender = NONE;
            const bool is_first = stage == 0 || (has_copies && stage == ranks);
            const bool is_last =
                stage == ranks * schedule->chunk_count - 1 || (has_copies && stage == ranks - 1);
            if (op.kind == OP_FORWARD && !is_first) {
                at->sender = reference_find(schedule, stage - 1, true, op.microbatch);
            } else if (op.kind != OP_FORWARD && op.kind != OP_BACKWARD_WEIGHT) {
                at->sender =
                    reference_find(schedule, is_last ? stage : stage + 1, is_last, op.microbatch);
            }
            if (at->sender != NONE) state->ops[at->sender].receiver = index;
        }
    }
}

static inline bool reference_has_begun(const reference_state *state, int index)
{
    return state->ops[index].begin_ns >= 0;
}

/// Whether all that an op needs but its rank, memory and its place in the order is there.
static inline bool reference_is_ready(const reference_state *state, int index)
{
    const bal_op op = state->schedule->ops[index];
    const reference_op *at = &state->ops[index];
    if (reference_has_begun(state, index)) return false;
    if (op.kind == OP_BACKWARD_WEIGHT) {
        const int input = reference_find(state->schedule, at->stage, false, op.microbatch);
        return state->ops[input].has_ended;
    }
    if (at->sender == NONE) return true;
    return at->arrival_ns >= 0 && at->arrival_ns <= state->now_ns;
}

static inline bool reference_fits(const reference_state *state, int index)
{
    const sim_claim *claim = &state->claims[state->ops[index].stage];
    const int rank = state->ops[index].rank;
    if (state->memory_limit == NULL || state->schedule->ops[index].kind != OP_FORWARD) return true;
    if (state->policy == SIM_STATIC) return true;
    return state->claimed[rank] + claim->from_forward + claim->reserve <= state->memory_limit[rank];
}

static inline bool reference_is_pair(const reference_state *state, int index)
{
    return state->policy == SIM_STATIC && state->schedule->ops[index].overlaps_next != 0;
}

/// The first op of a rank that has not begun, W left out where they have no order; NONE: none left.
static inline int reference_next(const reference_state *state, int rank)
{
    const bal_schedule *schedule = state->schedule;
    for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
        if (reference_has_begun(state, index)) continue;
        const bool is_weight = schedule->ops[index].kind == OP_BACKWARD_WEIGHT;
        if (state->policy == SIM_STATIC || !is_weight) return index;
    }
    return NONE;
}

/// The pending W whose B ended first.
static inline int reference_oldest_weight(const reference_state *state, int rank)
{
    const bal_schedule *schedule = state->schedule;
    int oldest = NONE;
    int64_t oldest_place = 0;
    for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
        const bal_op op = schedule->ops[index];
        if (op.kind != OP_BACKWARD_WEIGHT || !reference_is_ready(state, index)) continue;
        int64_t place = 0; // of its B among what the rank has played
        while (true) {
            const bal_op played = state->played_ops[schedule->first_op[rank] + place];
            if (played.kind == OP_BACKWARD_INPUT && played.chunk == op.chunk &&
                played.microbatch == op.microbatch) {
                break;
            }
            place++;
        }
        if (oldest != NONE && place > oldest_place) continue;
        oldest = index;
        oldest_place = place;
    }
    return oldest;
}

/// Of the ready F (or B) of a chunk the one whose message came first; of the chunks the one whose
/// such op stands first in the schedule.
static inline int reference_first_ready(const reference_state *state, int rank, bool is_forward)
{
    const bal_schedule *schedule = state->schedule;
    int best = NONE;
    for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
        int first = NONE;
        for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
            const bal_op op = schedule->ops[index];
            if (op.kind == OP_BACKWARD_WEIGHT || op.chunk != chunk) continue;
            if ((op.kind == OP_FORWARD) != is_forward || !reference_is_ready(state, index))
                continue;
            const reference_op *at = &state->ops[index];
            const reference_op *other = first == NONE ? NULL : &state->ops[first];
            if (first == NONE || at->arrival_ns < other->arrival_ns ||
                (at->arrival_ns == other->arrival_ns && at->arrival_order < other->arrival_order)) {
                first = index;
            }
        }
        if (first == NONE || !reference_fits(state, first)) continue;
        if (best == NONE || first < best) best = first;
    }
    return best;
}

/// What a free rank runs now, or NONE.
static inline int reference_choose(const reference_state *state, int rank)
{
    if (state->policy == SIM_GREEDY) {
        const int backward = reference_first_ready(state, rank, false);
        if (backward != NONE) return backward;
        const int forward = reference_first_ready(state, rank, true);
        return forward != NONE ? forward : reference_oldest_weight(state, rank);
    }
    const int next = reference_next(state, rank);
    if (next != NONE && reference_is_ready(state, next) && reference_fits(state, next) &&
        (!reference_is_pair(state, next) || reference_is_ready(state, next + 1))) {
        return next;
    }
    return state->policy == SIM_STATIC ? NONE : reference_oldest_weight(state, rank);
}

static inline bool reference_crosses(const reference_state *state, int sender)
{
    return state->ops[state->ops[sender].receiver].rank != state->ops[sender].rank;
}

/// Puts the message of an op between ranks on its way now; when it arrives.
static inline int64_t reference_travel(reference_state *state, int sender)
{
    const bal_op op = state->schedule->ops[sender];
    const int stage = state->ops[sender].stage;
    const bool is_forward = op.kind == OP_FORWARD;
    const sim_network *network = state->network;
    const int64_t *send_ns =
        is_forward ? state->costs->send_forward_ns : state->costs->send_backward_ns;
    int64_t begin_ns = state->now_ns;
    if (network->link_count > 0) {
        const int link = (is_forward ? network->link[0] : network->link[1])[stage];
        const int64_t held_ns =
            (is_forward ? network->occupancy_ns[0] : network->occupancy_ns[1])[stage];
        if (link >= 0 && state->link_free_ns[link] > begin_ns) begin_ns = state->link_free_ns[link];
        if (link >= 0) state->link_free_ns[link] = begin_ns + held_ns;
    }
    return begin_ns + send_ns[stage] +
           reference_delay_ns(state->costs, is_forward ? OP_FORWARD : OP_BACKWARD_INPUT, stage,
                              op.microbatch);
}

static inline void reference_arrive(reference_state *state, int sender, int64_t arrival_ns)
{
    reference_op *receiver = &state->ops[state->ops[sender].receiver];
    receiver->arrival_ns = arrival_ns;
    receiver->arrival_order = state->sent_count++;
}

static inline void reference_make_busy(reference_state *state, int rank, int64_t until_ns)
{
    if (until_ns > state->busy_until_ns[rank]) state->busy_until_ns[rank] = until_ns;
}

static inline void reference_send(reference_state *state, int sender)
{
    reference_op *at = &state->ops[sender];
    if (at->receiver == NONE) return;
    if (!reference_crosses(state, sender)) {
        reference_arrive(state, sender, state->now_ns);
    } else if (state->network->send == BAL_SEND_RENDEZVOUS) {
        at->is_offered = true;
    } else {
        const int64_t arrival_ns = reference_travel(state, sender);
        reference_arrive(state, sender, arrival_ns);
        if (state->network->send == BAL_SEND_BLOCKING) {
            reference_make_busy(state, at->rank, arrival_ns);
        }
    }
}

static inline void reference_end_ops(reference_state *state)
{
    for (int rank = 0; rank < state->schedule->rank_count; rank++) {
        const int index = state->running[rank];
        if (index == NONE || state->ops[index].end_ns != state->now_ns) continue;
        state->running[rank] = NONE;
        state->ops[index].has_ended = true;
        if (reference_is_pair(state, index)) continue; // sends when the second ends
        if (index > state->schedule->first_op[rank] && reference_is_pair(state, index - 1)) {
            reference_send(state, index - 1);
        }
        reference_send(state, index);
    }
}

/// Whether the rank of an op is at rest and takes its message as soon as it is offered.
static inline bool reference_receives(const reference_state *state, int receiver)
{
    const int rank = state->ops[receiver].rank;
    if (state->running[rank] != NONE) return false;
    if (state->start_ns != NULL && state->start_ns[rank] > state->now_ns) return false;
    if (state->policy == SIM_GREEDY) return true;
    const int next = reference_next(state, rank);
    return next == receiver || (reference_is_pair(state, next) && next + 1 == receiver);
}

static inline void reference_meet(reference_state *state)
{
    for (int rank = 0; rank < state->schedule->rank_count; rank++) {
        const int first = state->schedule->first_op[rank];
        for (int index = first; index < state->schedule->first_op[rank + 1]; index++) {
            reference_op *at = &state->ops[index];
            if (!at->is_offered || !reference_receives(state, at->receiver)) continue;
            at->is_offered = false;
            const int64_t arrival_ns = reference_travel(state, index);
            reference_arrive(state, index, arrival_ns);
            reference_make_busy(state, rank, arrival_ns);
            reference_make_busy(state, state->ops[at->receiver].rank, arrival_ns);
        }
    }
}

static inline bool reference_is_free(const reference_state *state, int rank)
{
    if (state->running[rank] != NONE || state->busy_until_ns[rank] > state->now_ns) return false;
    const int first = state->schedule->first_op[rank];
    for (int index = first; index < state->schedule->first_op[rank + 1]; index++) {
        if (state->ops[index].is_offered) return false;
    }
    return true;
}

/// @return whether the op takes no time
static inline bool reference_begin(reference_state *state, int rank, int index)
{
    const bal_schedule *schedule = state->schedule;
    reference_op *at = &state->ops[index];
    const sim_claim *claim = &state->claims[at->stage];
    const bal_op op = schedule->ops[index];
    at->begin_ns = state->now_ns;
    at->end_ns = state->now_ns + reference_op_ns(state->costs, at->stage, op);
    state->running[rank] = index;
    const int64_t before = op.kind == OP_FORWARD           ? 0
                           : op.kind == OP_BACKWARD_WEIGHT ? claim->from_backward
                                                           : claim->from_forward;
    const int64_t after = op.kind == OP_FORWARD          ? claim->from_forward
                          : op.kind == OP_BACKWARD_INPUT ? claim->from_backward
                                                         : claim->from_weight;
    state->claimed[rank] += after - before; // nobody asks before the op has ended
    const int played = schedule->first_op[rank] + state->played_count[rank]++;
    state->played_ops[played] = op;
    if (state->policy != SIM_STATIC) state->played_ops[played].overlaps_next = 0;
    state->played_begin_ns[played] = at->begin_ns;
    state->played_end_ns[played] = at->end_ns;
    return at->end_ns == at->begin_ns;
}

/// Everything that happens at this moment.
static inline void reference_moment(reference_state *state)
{
    for (bool again = true; again;) {
        int choice[16];
        again = false;
        reference_end_ops(state);
        if (state->network->send == BAL_SEND_RENDEZVOUS) reference_meet(state);
        for (int rank = 0; rank < state->schedule->rank_count; rank++) {
            choice[rank] = reference_is_free(state, rank) ? reference_choose(state, rank) : NONE;
        }
        for (int rank = 0; rank < state->schedule->rank_count; rank++) {
            if (choice[rank] != NONE && reference_begin(state, rank, choice[rank])) again = true;
        }
    }
}

static inline void reference_earlier(const reference_state *state, int64_t time_ns,
                                     int64_t *next_ns)
{
    if (time_ns > state->now_ns && time_ns < *next_ns) *next_ns = time_ns;
}

/// The next moment at which something ends, arrives or is free again; INT64_MAX: never.
static inline int64_t reference_next_ns(const reference_state *state)
{
    const bal_schedule *schedule = state->schedule;
    int64_t next_ns = INT64_MAX;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        reference_earlier(state, state->busy_until_ns[rank], &next_ns);
    }
    for (int index = 0; index < schedule->first_op[schedule->rank_count]; index++) {
        reference_earlier(state, state->ops[index].end_ns, &next_ns);
        reference_earlier(state, state->ops[index].arrival_ns, &next_ns);
    }
    return next_ns;
}

/// Plays a schedule whose costs and network are accepted.
///
/// @param memory_limit [rank_count] one that the policy can keep, or NULL
/// @param start_ns     [rank_count] or NULL
/// @param played       out, with timeline.schedule
/// @return whether all ops ran; else ranks wait for each other
static inline bool reference_play_network(const bal_schedule *schedule, sim_policy policy,
                                          const sim_network *network, const bal_stage_costs *costs,
                                          const int64_t *memory_limit, const int64_t *start_ns,
                                          bal_schedule *played, bal_timeline *timeline)
{
    const size_t ranks = (size_t)schedule->rank_count;
    const size_t ops = (size_t)schedule->first_op[ranks];
    sim_claim *claims = arena_array(memory, (size_t)costs->stage_count, sizeof *claims);
    int64_t *need = arena_array(memory, ranks, sizeof *need);
    reference_state state = {
        .schedule = schedule,
        .costs = costs,
        .network = network,
        .memory_limit = memory_limit,
        .claims = claims,
        .policy = policy,
        .start_ns = start_ns,
        .ops = arena_array(memory, ops, sizeof *state.ops),
        .running = arena_array(memory, ranks, sizeof(int)),
        .busy_until_ns = arena_array(memory, ranks, sizeof(int64_t)),
        .claimed = arena_array(memory, ranks, sizeof(int64_t)),
        .link_free_ns = arena_array(memory, (size_t)network->link_count, sizeof(int64_t)),
        .played_count = arena_array(memory, ranks, sizeof(int)),
        .played_ops = arena_array(memory, ops, sizeof(bal_op)),
        .played_begin_ns = arena_array(memory, ops, sizeof(int64_t)),
        .played_end_ns = arena_array(memory, ops, sizeof(int64_t)),
    };
    assert_true(claims != NULL && need != NULL && state.played_end_ns != NULL);
    assert_true(ranks <= 16);
    if (memory_limit != NULL) {
        assert_ok(sim_claims_fill(schedule, policy, costs, memory_limit, claims, need, NULL));
    }
    for (size_t index = 0; index < ops; index++) {
        state.ops[index].receiver = NONE;
        state.ops[index].begin_ns = state.ops[index].end_ns = state.ops[index].arrival_ns = NONE;
    }
    for (size_t rank = 0; rank < ranks; rank++) {
        state.running[rank] = NONE;
        if (start_ns != NULL) state.busy_until_ns[rank] = start_ns[rank];
    }
    reference_connect(&state);
    for (; state.now_ns != INT64_MAX; state.now_ns = reference_next_ns(&state)) {
        reference_moment(&state);
    }
    bool is_complete = true;
    for (size_t index = 0; index < ops; index++) {
        is_complete = is_complete && state.ops[index].has_ended;
    }
    *played = *schedule;
    played->ops = state.played_ops;
    *timeline = (bal_timeline){
        .schedule = played, .begin_ns = state.played_begin_ns, .end_ns = state.played_end_ns};
    return is_complete;
}
