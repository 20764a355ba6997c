/// zb-auto: a searched zero-bubble order under a memory limit.
///
/// A pass builds a whole order in rounds. Round i lets forwards run down the ranks, then sends the
/// gradient of microbatch i up from the last rank; W fill the gaps in front of both. What a pass
/// decides by rules of thumb is named by a `plan`; plans are tried until a count of ops is spent,
/// and beside them dispatch as it comes (order_pass.h), which wins where memory is short. The
/// smallest span wins, then the smallest makespan, then the order that holds fewest microbatches,
/// then the first.
///
/// Source: Qi et al., Zero bubble pipeline parallelism, ICLR 2024, section 3.1: warmup, priority of
/// B over F, and the rule for W in a gap, two variants each. Theirs are eight of the plans here;
/// further warmups and the hand orders, cut to the memory limit, are ours.
#include "balance/schedule/order_pass.h"
#include "balance/schedule/order_search.h"
#include "balance/schedule/schedule_families.h"

#include <assert.h>
#include <string.h>

enum { FORWARD, INPUT, WEIGHT }; // codes of a search of one chunk

/// How many forwards a rank runs before its first B, as far as its memory allows.
typedef enum warmup_rule {
    WARMUP_NO_DELAY, ///< those that end before the first gradient arrives
    WARMUP_NO_GAP,   ///< one more, so that the rank never waits for it
    WARMUP_SLOPE,    ///< a fixed number for each rank after it
    WARMUP_SPREAD,   ///< what fills the memory on rank 0, in proportion to the ranks after it
} warmup_rule;

typedef struct warmup {
    warmup_rule rule;
    int quarters;      // WARMUP_SLOPE: forwards per rank after it, in quarters, rounded up
    bool is_staggered; // a later rank runs at least one fewer, so that none waits for its input;
                       // else it may run as many, which pays where memory is tight
} warmup;

/// The paper's two come first, then in the order in which they win.
static const warmup warmups[] = {
    {.rule = WARMUP_NO_DELAY, .is_staggered = true},
    {.rule = WARMUP_NO_GAP, .is_staggered = true},
    {.rule = WARMUP_SLOPE, .quarters = 8, .is_staggered = true},
    {.rule = WARMUP_SPREAD},
    {.rule = WARMUP_SLOPE, .quarters = 6},
    {.rule = WARMUP_SLOPE, .quarters = 8},
    {.rule = WARMUP_NO_DELAY},
    {.rule = WARMUP_NO_GAP},
    {.rule = WARMUP_SLOPE, .quarters = 4},
    {.rule = WARMUP_SLOPE, .quarters = 4, .is_staggered = true},
    {.rule = WARMUP_SLOPE, .quarters = 3},
    {.rule = WARMUP_SLOPE, .quarters = 2},
    {.rule = WARMUP_SLOPE, .quarters = 1},
};
enum { WARMUP_COUNT = sizeof warmups / sizeof warmups[0] };

typedef enum weight_rule {
    WEIGHT_FILL_ALL,  ///< W in every gap, also where it overruns
    WEIGHT_FILL_PAST, ///< an overrunning W only in gaps that the rank cannot afford to leave
    WEIGHT_HAND,      ///< W at a fixed distance after B: zb-h1, zb-h2
} weight_rule;

/// What a pass decides by.
typedef struct plan {
    warmup warmup;
    weight_rule weight;
    int hand_depth;      // WEIGHT_HAND: 1 for zb-h1, 2 for zb-h2
    bool backward_first; // leave out a forward that would delay the next B
} plan;

/// Dispatch as it comes wins where memory is short: below that of zb-h1, orders are best when every
/// rank takes what is there.
static const bal_greedy_plan greedy_plans[] = {
    {.first = {OP_BACKWARD_INPUT, OP_FORWARD}, .alternates = true},
    {.first = {OP_BACKWARD_INPUT, OP_FORWARD},
     .alternates = true,
     .overruns_backward = true,
     .overruns_forward = true},
    {.first = {OP_BACKWARD_INPUT, OP_FORWARD}, .alternates = true, .overruns_backward = true},
    {.first = {OP_FORWARD, OP_BACKWARD_INPUT}, .overruns_backward = true},
};

/// What a search may spend, in ops placed: the larger of the two. It is counted, not timed, so that
/// the same problem has the same answer everywhere. 24 ranks of 96 microbatches take all of it.
enum { OPS_LEAST = 80000, PASSES_LEAST = 12 };

/// What the search holds; everything is carved once, before the first pass.
typedef struct search {
    bal_order_search orders;
    bal_order_pass pass;
    int rank_count;
    int microbatch_count;
    int *warmup;         // [rank_count] forwards before the first B, besides the first
    int *warmups;        // [WARMUP_COUNT][rank_count] of the passes so far
    bool *takes_forward; // [rank_count] in this round
    int64_t idle_max_ns; // largest idle_ns of the pass
    int64_t left;        // ops that may still be placed
} search;

/// Appends the next F or B to a rank, once its message has arrived.
static void put(search *find, int rank, int sweep)
{
    const bal_pass_rank *state = &find->pass.ranks[rank];
    const int64_t arrival_ns = find->orders.ranks[rank].arrival_ns[sweep][state->done[sweep]];
    assert(state->done[sweep] < state->known[sweep]);
    bal_order_pass_put_sweep(&find->pass, rank, sweep,
                             arrival_ns > state->free_ns ? arrival_ns : state->free_ns);
    if (state->idle_ns > find->idle_max_ns) find->idle_max_ns = state->idle_ns;
}

static void put_weight(search *find, int rank)
{
    bal_order_pass_put_weight(&find->pass, rank, find->pass.ranks[rank].free_ns);
}

/// Memory that a forward needs at once: its own, and of a B after it that may take more.
static int64_t forward_need(const search *find, int rank)
{
    return find->orders.ranks[rank].need[FORWARD];
}

/// Runs W until need fits beside what the rank holds, or none is left.
static void free_memory(search *find, int rank, int64_t need)
{
    const bal_pass_rank *state = &find->pass.ranks[rank];
    const int64_t limit = find->orders.ranks[rank].memory_limit;
    while (state->held + need > limit && bal_pass_has_weight(state)) {
        put_weight(find, rank);
    }
}

/// Runs W while the rank would wait for a message: first those that end before it arrives, then
/// perhaps one that overruns. A rank that has waited less than the worst can afford the gap: only
/// the worst decides the span.
static void fill_gap(search *find, int rank, int sweep, weight_rule rule)
{
    const bal_pass_rank *state = &find->pass.ranks[rank];
    const bal_order_rank *of = &find->orders.ranks[rank];
    const int64_t arrival_ns = of->arrival_ns[sweep][state->done[sweep]];
    if (rule == WEIGHT_HAND) return;
    while (bal_pass_has_weight(state) && state->free_ns + of->op_ns[WEIGHT] <= arrival_ns) {
        put_weight(find, rank);
    }
    const int64_t gap_ns = arrival_ns - state->free_ns;
    if (gap_ns <= 0 || !bal_pass_has_weight(state)) return;
    if (rule == WEIGHT_FILL_ALL || gap_ns > find->idle_max_ns - state->idle_ns) {
        put_weight(find, rank);
    }
}

/// Forwards of a rank's warmup beside the first, where the rule is a number.
static int planned_warmup(const search *find, int rank, const warmup *by)
{
    const bal_order_rank *of = &find->orders.ranks[rank];
    const int last = find->rank_count - 1;
    const int behind = last - rank;
    if (by->rule != WARMUP_SPREAD) return (by->quarters * behind + 3) / 4;
    if (last == 0) return 0;
    int64_t fitting = 2 * last; // zb-h2 never needs more
    if (of->memory[FORWARD] > 0) {
        const int64_t further = (of->memory_limit - forward_need(find, rank)) / of->memory[FORWARD];
        if (further < fitting) fitting = further;
    }
    return (int)((fitting * behind + last - 1) / last);
}

/// Counts the forwards of a rank's warmup beside the first, under its memory limit.
///
/// @param gradient_ns when the first gradient arrives
static int count_warmup(const search *find, int rank, int64_t gradient_ns, const warmup *by,
                        int64_t *end_ns)
{
    const bal_order_rank *of = &find->orders.ranks[rank];
    const int planned = planned_warmup(find, rank, by);
    int count = 0;
    int64_t held = find->pass.ranks[rank].held;
    *end_ns = find->pass.ranks[rank].free_ns;
    while (count + 1 < find->microbatch_count &&
           held + forward_need(find, rank) <= of->memory_limit) {
        if (by->rule == WARMUP_NO_DELAY && *end_ns + of->op_ns[FORWARD] > gradient_ns) break;
        if (by->rule == WARMUP_NO_GAP && *end_ns >= gradient_ns) break;
        if (by->rule >= WARMUP_SLOPE && count == planned) break;
        held += of->memory[FORWARD];
        *end_ns += of->op_ns[FORWARD];
        count++;
    }
    return count;
}

/// The most forwards that a rank may warm up by behind one that warms up by before: never more,
/// or it would need what the other has not sent.
static int warmup_most(const search *find, const warmup *by, int before)
{
    const bool runs_all = before + 1 == find->microbatch_count;
    return by->is_staggered && !runs_all && before > 0 ? before - 1 : before;
}

/// First forward and warmup of all ranks.
static void warm_up(search *find, const warmup *by)
{
    const int last = find->rank_count - 1;
    for (int rank = 0; rank <= last; rank++) {
        put(find, rank, FORWARD);
    }
    int64_t gradient_ns = 0;
    for (int rank = last; rank >= 0; rank--) {
        const bal_order_rank *of = &find->orders.ranks[rank];
        int64_t end_ns = find->pass.ranks[rank].free_ns;
        find->warmup[rank] = rank == last ? 0 : count_warmup(find, rank, gradient_ns, by, &end_ns);
        const int64_t begin_ns = end_ns > gradient_ns ? end_ns : gradient_ns;
        gradient_ns = begin_ns + of->op_ns[INPUT] + of->send_ns[INPUT];
    }
    for (int rank = 0; rank <= last; rank++) {
        const int most =
            rank > 0 ? warmup_most(find, by, find->warmup[rank - 1]) : find->warmup[rank];
        if (find->warmup[rank] > most) find->warmup[rank] = most;
        for (int forward = 0; forward < find->warmup[rank]; forward++) {
            put(find, rank, FORWARD);
        }
    }
}

/// Whether a forward may run before the next B at all: there is one, and memory for it once the
/// pending W are done.
static bool has_room_for_forward(const search *find, int rank)
{
    const bal_pass_rank *state = &find->pass.ranks[rank];
    if (state->done[FORWARD] == find->microbatch_count) return false;
    return state->held + state->pending_memory + forward_need(find, rank) <=
           find->orders.ranks[rank].memory_limit;
}

/// Whether a rank that is at least two forwards ahead of the next one should leave out a forward,
/// because it would delay the next gradient and the wait for that is affordable.
static bool waits_for_gradient(const search *find, int rank)
{
    const bal_pass_rank *state = &find->pass.ranks[rank];
    const bal_pass_rank *next = &find->pass.ranks[rank + 1];
    const bal_order_rank *of = &find->orders.ranks[rank];
    const bal_order_rank *of_next = &find->orders.ranks[rank + 1];
    if (state->done[FORWARD] < next->done[FORWARD] + 2) return false;
    const int64_t gradient_ns =
        next->free_ns + of_next->op_ns[FORWARD] + of_next->op_ns[INPUT] + of_next->send_ns[INPUT];
    if (state->free_ns >= gradient_ns) return true;
    int64_t held = state->held + forward_need(find, rank);
    int64_t end_ns = state->free_ns + of->op_ns[FORWARD];
    for (int weight = state->pending_first;
         weight < state->pending_end && held > of->memory_limit && end_ns <= gradient_ns;
         weight++) {
        held += of->memory[WEIGHT];
        end_ns += of->op_ns[WEIGHT];
    }
    if (end_ns <= gradient_ns) return false;
    return gradient_ns - state->free_ns <= find->idle_max_ns - state->idle_ns;
}

/// Decides, from the last rank on, who runs a forward in this round: nobody whose next rank does
/// not, so that a rank never falls behind the one after it.
static void choose_forwards(search *find, bool backward_first)
{
    const int last = find->rank_count - 1;
    bool next_takes = true;
    for (int rank = last; rank >= 0; rank--) {
        next_takes = next_takes && has_room_for_forward(find, rank) &&
                     !(backward_first && rank < last && waits_for_gradient(find, rank));
        find->takes_forward[rank] = next_takes;
    }
}

static void run_forwards(search *find, weight_rule rule)
{
    for (int rank = 0; rank < find->rank_count; rank++) {
        const bal_pass_rank *state = &find->pass.ranks[rank];
        if (!find->takes_forward[rank] || state->done[FORWARD] == state->known[FORWARD]) continue;
        free_memory(find, rank, forward_need(find, rank));
        fill_gap(find, rank, FORWARD, rule);
        put(find, rank, FORWARD);
    }
}

/// Sends one gradient up the ranks. Nobody waits for B of rank 0: once it has no forwards left, W
/// go first there, and its memory with them.
static void run_backwards(search *find, const plan *by)
{
    const int last = find->rank_count - 1;
    for (int rank = last; rank >= 0; rank--) {
        const bal_pass_rank *state = &find->pass.ranks[rank];
        free_memory(find, rank, find->orders.ranks[rank].memory[INPUT]);
        if (rank < last) fill_gap(find, rank, INPUT, by->weight);
        const bool weights_first = rank == 0 && by->weight != WEIGHT_HAND &&
                                   state->done[FORWARD] == find->microbatch_count;
        while (weights_first && bal_pass_has_weight(state)) {
            put_weight(find, rank);
        }
        put(find, rank, INPUT);
        const bool is_due = state->pending_first + by->hand_depth * rank < state->done[INPUT];
        if (by->weight == WEIGHT_HAND && is_due) put_weight(find, rank);
    }
}

static void reset(search *find)
{
    find->idle_max_ns = 0;
    bal_order_pass_reset(&find->pass);
}

/// Whether there is something to gain, and work left to spend on it.
static bool is_going_on(const search *find)
{
    return find->left > 0 && find->orders.best_span_ns > find->orders.least_span_ns;
}

/// Builds one order after its warmup, and gives it up once it can no longer win.
static void run_rounds(search *find, const plan *by)
{
    run_backwards(find, by);
    for (int microbatch = 1; microbatch < find->microbatch_count; microbatch++) {
        find->left -= 3 * (int64_t)find->rank_count;
        bal_order_search_count(&find->orders, 3 * (int64_t)find->rank_count);
        choose_forwards(find, by->backward_first);
        run_forwards(find, by->weight);
        run_backwards(find, by);
        if (bal_order_pass_is_beaten(&find->pass)) return;
    }
    for (int rank = 0; rank < find->rank_count; rank++) {
        while (bal_pass_has_weight(&find->pass.ranks[rank])) {
            put_weight(find, rank);
        }
    }
    bal_order_pass_offer(&find->pass);
}

static void run_pass(search *find, const plan *by)
{
    reset(find);
    warm_up(find, &by->warmup);
    run_rounds(find, by);
}

/// Whether a warmup gives every rank what an earlier one of the table has given it. Keeps it.
static bool is_repeated(search *find, int index)
{
    const size_t rank_count = (size_t)find->rank_count;
    const size_t bytes = rank_count * sizeof *find->warmup;
    memcpy(find->warmups + (size_t)index * rank_count, find->warmup, bytes);
    for (int before = 0; before < index; before++) {
        const int *const other = find->warmups + (size_t)before * rank_count;
        if (memcmp(find->warmup, other, bytes) == 0) return true;
    }
    return false;
}

/// The hand orders, cut to the memory limit: always tried, so that none is ever better.
static void run_hand_plans(search *find)
{
    for (int variant = 0; variant < 4; variant++) {
        const int depth = 1 + variant / 2;
        const plan by = {.warmup = {.rule = WARMUP_SLOPE,
                                    .quarters = 4 * depth,
                                    .is_staggered = variant % 2 == 0},
                         .weight = WEIGHT_HAND,
                         .hand_depth = depth};
        run_pass(find, &by);
    }
}

/// The others, the paper's eight plans first, as long as there is work left to spend.
static void run_plans(search *find)
{
    for (int index = 0; index < WARMUP_COUNT; index++) {
        reset(find);
        warm_up(find, &warmups[index]);
        if (is_repeated(find, index)) continue;
        for (int variant = 0; variant < 4; variant++) {
            if (find->left <= 0) return;
            const plan by = {.warmup = warmups[index],
                             .weight = variant % 2 == 0 ? WEIGHT_FILL_ALL : WEIGHT_FILL_PAST,
                             .backward_first = variant < 2};
            run_pass(find, &by);
        }
    }
}

/// How many times as long as one in rounds a greedy pass may take.
enum { GREEDY_WEIGHT = 4 };

static void run_greedy(search *find, const bal_greedy_plan *by, arena *memory)
{
    find->left -= GREEDY_WEIGHT * 3 * (int64_t)find->microbatch_count * find->rank_count;
    bal_order_search_greedy(&find->orders, by, 1, memory);
}

status bal_schedule_search_zb_auto(const bal_schedule_request *request, arena *memory, bal_op *ops,
                                   error_message *err)
{
    const size_t rank_count = (size_t)request->rank_count;
    search find = {.rank_count = request->rank_count,
                   .microbatch_count = request->microbatch_count,
                   .warmup = arena_array(memory, rank_count, sizeof *find.warmup),
                   .warmups = arena_array(memory, WARMUP_COUNT * rank_count, sizeof *find.warmups),
                   .takes_forward = arena_array(memory, rank_count, sizeof *find.takes_forward)};
    TRY(bal_order_search_begin(request, 1, 0, memory, &find.orders, err));
    bal_order_pass_init(&find.orders, memory, &find.pass);
    const int64_t op_count = (int64_t)3 * request->microbatch_count * request->rank_count;
    find.left = PASSES_LEAST * op_count > OPS_LEAST ? PASSES_LEAST * op_count : OPS_LEAST;
    run_greedy(&find, &greedy_plans[0], memory);
    run_hand_plans(&find);
    run_plans(&find);
    const int greedy_count = sizeof greedy_plans / sizeof greedy_plans[0];
    for (int index = 1; index < greedy_count && is_going_on(&find); index++) {
        run_greedy(&find, &greedy_plans[index], memory);
    }
    bal_order_search_improve(&find.orders);
    bal_order_search_write(&find.orders, ops);
    return STATUS_OK;
}
