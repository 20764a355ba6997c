#include "balance/schedule/order_pass.h"

#include "balance/schedule/event_tree.h"

#include <string.h>

void bal_order_pass_init(bal_order_search *find, arena *memory, bal_order_pass *pass)
{
    const size_t rank_count = (size_t)find->rank_count;
    const size_t rank_chunks = (size_t)find->chunk_count * (size_t)find->microbatch_count;
    bal_pass_rank *ranks = arena_array(memory, rank_count, sizeof *ranks);
    uint8_t *pending = arena_array(memory, rank_count * rank_chunks, sizeof *pending);
    for (size_t rank = 0; rank < rank_count; rank++) {
        ranks[rank].pending = pending + rank * rank_chunks;
    }
    *pass = (bal_order_pass){.find = find, .ranks = ranks};
}

void bal_order_pass_reset(bal_order_pass *pass)
{
    const bal_order_search *find = pass->find;
    const size_t rank_ops = 3 * (size_t)find->chunk_count * (size_t)find->microbatch_count;
    pass->span_ns = find->least_span_ns;
    pass->makespan_ns = 0;
    pass->held = 0;
    for (int rank = 0; rank < find->rank_count; rank++) {
        pass->ranks[rank] = (bal_pass_rank){
            .codes = find->codes + (size_t)rank * rank_ops,
            .pending = pass->ranks[rank].pending,
        };
    }
    pass->ranks[0].known[0] = find->microbatch_count;
    memset(find->ranks[0].arrival_ns[0], 0, (size_t)find->microbatch_count * sizeof(int64_t));
}

bool bal_order_pass_is_beaten(const bal_order_pass *pass)
{
    return bal_order_search_is_beaten(pass->find, pass->span_ns, pass->makespan_ns, pass->held);
}

void bal_order_pass_offer(bal_order_pass *pass)
{
    bal_order_search_offer(pass->find, pass->span_ns, pass->makespan_ns, pass->held);
}

enum { DECISION_OPS = 4 }; // what a decision counts as, in ops placed

/// A pass. Decisions are taken in the order of time, of the first rank at equal times: what a rank
/// does not know yet when it decides cannot have begun.
typedef struct greedy {
    bal_order_pass order;
    const bal_greedy_plan *by;
    bool *ran_backward;   // [rank_count] the rank's last op, W aside
    bal_event_tree wakes; // when each rank decides next; BAL_NEVER: when a message comes
} greedy;

static void set_wake(const greedy *pass, int rank, int64_t wake_ns)
{
    bal_event_tree_set(&pass->wakes, rank, wake_ns);
}

static void put_weight(greedy *pass, int rank, int64_t begin_ns)
{
    bal_order_pass_put_weight(&pass->order, rank, begin_ns);
    set_wake(pass, rank, pass->order.ranks[rank].free_ns);
}

static void put_sweep(greedy *pass, int rank, int sweep, int64_t begin_ns)
{
    const bal_order_rank *of = &pass->order.find->ranks[rank];
    const int microbatch = bal_order_pass_put_sweep(&pass->order, rank, sweep, begin_ns);
    const int to = of->next_rank[sweep];
    pass->ran_backward[rank] = sweep >= pass->order.find->chunk_count;
    set_wake(pass, rank, pass->order.ranks[rank].free_ns);
    if (to < 0 || to == rank) return;
    const int64_t arrival_ns = of->message_ns[sweep][microbatch];
    const int64_t free_ns = pass->order.ranks[to].free_ns;
    const int64_t wake_ns = arrival_ns > free_ns ? arrival_ns : free_ns;
    if (wake_ns < bal_event_tree_ns(&pass->wakes, to)) set_wake(pass, to, wake_ns);
}

/// What a rank could run.
typedef struct choice {
    int sweep;          // to run now; -1: none
    int next_sweep;     // whose message is the next to arrive; -1: none that is known
    int64_t arrival_ns; // of that message; INT64_MAX: none
} choice;

/// Whether memory allows an op of a sweep, once all W that could run have run.
static bool has_room(const greedy *pass, const bal_pass_rank *state, int rank, int sweep)
{
    const bal_order_rank *of = &pass->order.find->ranks[rank];
    if (state->held + state->pending_memory + of->need[sweep] > of->memory_limit) return false;
    if (sweep > 0 || pass->by->held_factor == 0) return true;
    const int under_way = state->done[0] - state->done[pass->order.find->sweep_count - 1];
    return under_way < pass->by->held_factor * pass->order.find->rank_count;
}

/// The first of the plan's sweeps that could run, F before B if the rank alternates and ran B.
static choice choose(const greedy *pass, int rank, int64_t now_ns)
{
    const bal_pass_rank *state = &pass->order.ranks[rank];
    const int sweeps = pass->order.find->sweep_count;
    const bool forwards_first = pass->by->alternates && pass->ran_backward[rank];
    choice found = {.sweep = -1, .next_sweep = -1, .arrival_ns = INT64_MAX};
    for (int index = 0; index < sweeps; index++) {
        const int sweep = pass->by->first[index];
        const int microbatch = state->done[sweep];
        if (microbatch == state->known[sweep] || !has_room(pass, state, rank, sweep)) continue;
        const int64_t arrival_ns = pass->order.find->ranks[rank].arrival_ns[sweep][microbatch];
        if (arrival_ns > now_ns) {
            if (arrival_ns >= found.arrival_ns) continue;
            found.arrival_ns = arrival_ns;
            found.next_sweep = sweep;
        } else if (found.sweep < 0 ||
                   (forwards_first && found.sweep >= sweeps / 2 && sweep < sweeps / 2)) {
            found.sweep = sweep;
        }
    }
    return found;
}

/// Whether W should run before the next message although it would end after its arrival. A rank
/// that has waited little enough can afford the gap: only the longest span counts.
static bool overruns(const greedy *pass, int rank, const choice *found, int64_t now_ns)
{
    if (found->next_sweep < 0) return true;
    const bool always = found->next_sweep < pass->order.find->chunk_count
                            ? pass->by->overruns_forward
                            : pass->by->overruns_backward;
    const bal_pass_rank *state = &pass->order.ranks[rank];
    const int64_t affordable_ns =
        pass->order.span_ns - pass->order.find->ranks[rank].work_ns - state->idle_ns;
    return always || found->arrival_ns - now_ns > affordable_ns;
}

static void decide(greedy *pass, int rank)
{
    const bal_pass_rank *state = &pass->order.ranks[rank];
    const bal_order_rank *of = &pass->order.find->ranks[rank];
    const int64_t now_ns = bal_event_tree_next_ns(&pass->wakes);
    const bool has_weight = bal_pass_has_weight(state);
    const choice found = choose(pass, rank, now_ns);
    if (found.sweep >= 0) {
        if (has_weight && state->held + of->need[found.sweep] > of->memory_limit) {
            put_weight(pass, rank, now_ns);
        } else {
            put_sweep(pass, rank, found.sweep, now_ns);
        }
        return;
    }
    if (has_weight) {
        const int64_t weight_ns = of->op_ns[state->pending[state->pending_first]];
        if (now_ns + weight_ns <= found.arrival_ns || overruns(pass, rank, &found, now_ns)) {
            put_weight(pass, rank, now_ns);
            return;
        }
    }
    set_wake(pass, rank, found.arrival_ns);
}

static void reset(greedy *pass)
{
    bal_order_pass_reset(&pass->order);
    for (int rank = 0; rank < pass->order.find->rank_count; rank++) {
        pass->ran_backward[rank] = false;
    }
    bal_event_tree_reset(&pass->wakes);
    set_wake(pass, 0, 0);
}

static void run_pass(greedy *pass)
{
    const bal_order_search *find = pass->order.find;
    int64_t decision_count = 0;
    bool is_beaten = false;
    reset(pass);
    while (!is_beaten && bal_event_tree_next_ns(&pass->wakes) < BAL_NEVER) {
        decide(pass, bal_event_tree_next(&pass->wakes));
        decision_count++;
        is_beaten = bal_order_pass_is_beaten(&pass->order);
    }
    bal_order_search_count(find, DECISION_OPS * decision_count);
    if (is_beaten) return;
    for (int rank = 0; rank < find->rank_count; rank++) {
        const int rank_ops = 3 * find->chunk_count * find->microbatch_count;
        if (pass->order.ranks[rank].op_count < rank_ops) return;
    }
    bal_order_pass_offer(&pass->order);
}

void bal_order_search_greedy(bal_order_search *find, const bal_greedy_plan *plans, int plan_count,
                             arena *memory)
{
    greedy pass = {0};
    bal_order_pass_init(find, memory, &pass.order);
    pass.ran_backward = arena_array(memory, (size_t)find->rank_count, sizeof *pass.ran_backward);
    bal_event_tree_init(find->rank_count, memory, &pass.wakes);
    for (int plan = 0; plan < plan_count; plan++) {
        pass.by = &plans[plan];
        run_pass(&pass);
    }
}
