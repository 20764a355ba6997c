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

/// How many forwards a rank runs before its first B, as far as its memory allows.
typedef enum warmup_rule {
    WARMUP_NO_DELAY, ///< those that end before the first gradient arrives
    WARMUP_NO_GAP,   ///< one more, so that the rank never waits for it
    WARMUP_SLOPE,    ///< a fixed number for each rank behind
    WARMUP_SPREAD,   ///< what fills the memory on rank 0, in proportion to the ranks behind
} warmup_rule;

typedef struct warmup {
    warmup_rule rule;
    int quarters;      // WARMUP_SLOPE: forwards per rank behind, in quarters, rounded up
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
    WEIGHT_HAND,      ///< W at a fixed distance behind B: zb-h1, zb-h2
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

/// A rank during a pass; the costs of its stage stand beside what it has done so far.
typedef struct rank_state {
    int64_t forward_ns;
    int64_t input_ns;
    int64_t weight_ns;
    int64_t send_forward_ns;  // to the next rank
    int64_t send_backward_ns; // to the rank before
    int64_t memory_forward;
    int64_t memory_input;
    int64_t memory_weight; // <= 0
    int64_t memory_limit;
    int64_t work_ns; // of all its ops

    int64_t *forward_end; // [microbatch_count] ns
    uint8_t *next_code;   // where its next op is written
    int64_t begin_ns;     // of its first forward
    int64_t free_ns;      // end of its last op
    int64_t idle_ns;      // since its first forward
    int64_t held;         // memory
    int forwards;         // ops so far
    int inputs;
    int weights;
    int in_flight_max; // most forwards whose W is still to come
    int warmup;        // forwards before the first B, besides the first
    bool takes_forward;
} rank_state;

/// What the search holds; everything is carved once, before the first pass.
typedef struct search {
    bal_order_search orders;
    int rank_count;
    int microbatch_count;
    rank_state *ranks;   // [rank_count]
    int *warmups;        // [WARMUP_COUNT][rank_count] of the passes so far
    int64_t idle_max_ns; // largest idle_ns of the pass
    int64_t left;        // ops that may still be placed
    int64_t span_ns;     // no order that begins like the pass has less
    int64_t makespan_ns; // likewise
} search;

/// Waits until a message has arrived; what the pass can still reach shrinks with idle time only.
static int64_t begin_op(search *find, rank_state *state, int64_t arrival_ns)
{
    if (arrival_ns <= state->free_ns) return state->free_ns;
    if (state->forwards == 0) {
        state->begin_ns = arrival_ns;
    } else {
        state->idle_ns += arrival_ns - state->free_ns;
        if (state->idle_ns > find->idle_max_ns) find->idle_max_ns = state->idle_ns;
    }
    const int64_t span_ns = state->work_ns + state->idle_ns;
    if (span_ns > find->span_ns) find->span_ns = span_ns;
    if (state->begin_ns + span_ns > find->makespan_ns) {
        find->makespan_ns = state->begin_ns + span_ns;
    }
    return arrival_ns;
}

/// Append the next F, B or W to a rank; the message of F and B arrives at arrival_ns.
static void put_forward(search *find, int rank, int64_t arrival_ns)
{
    rank_state *state = &find->ranks[rank];
    state->free_ns = begin_op(find, state, arrival_ns) + state->forward_ns;
    *state->next_code++ = OP_FORWARD;
    state->held += state->memory_forward;
    state->forward_end[state->forwards++] = state->free_ns;
    const int in_flight = state->forwards - state->weights;
    if (in_flight > state->in_flight_max) state->in_flight_max = in_flight;
}

static void put_input(search *find, int rank, int64_t arrival_ns)
{
    rank_state *state = &find->ranks[rank];
    state->free_ns = begin_op(find, state, arrival_ns) + state->input_ns;
    *state->next_code++ = OP_BACKWARD_INPUT;
    state->held += state->memory_input;
    state->inputs++;
}

static void put_weight(rank_state *state)
{
    *state->next_code++ = OP_BACKWARD_WEIGHT;
    state->free_ns += state->weight_ns;
    state->held += state->memory_weight;
    state->weights++;
}

static int64_t forward_arrival(const search *find, int rank)
{
    if (rank == 0) return 0;
    const rank_state *state = &find->ranks[rank];
    assert(state->forwards < state[-1].forwards);
    return state[-1].forward_end[state->forwards] + state[-1].send_forward_ns;
}

/// Memory that a forward needs at once: its own, and of a B behind it that may take more.
static int64_t forward_need(const rank_state *state)
{
    return state->memory_forward + (state->memory_input > 0 ? state->memory_input : 0);
}

/// Runs W until need fits beside what the rank holds, or none is left.
static void free_memory(search *find, int rank, int64_t need)
{
    rank_state *state = &find->ranks[rank];
    while (state->held + need > state->memory_limit && state->weights < state->inputs) {
        put_weight(state);
    }
}

/// Runs W while the rank would wait for a message: first those that end before it arrives, then
/// perhaps one that overruns. A rank that has waited less than the worst can afford the gap: only
/// the worst decides the span.
static void fill_gap(search *find, int rank, int64_t arrival_ns, weight_rule rule)
{
    rank_state *state = &find->ranks[rank];
    if (rule == WEIGHT_HAND) return;
    while (state->weights < state->inputs && state->free_ns + state->weight_ns <= arrival_ns) {
        put_weight(state);
    }
    const int64_t gap_ns = arrival_ns - state->free_ns;
    if (gap_ns <= 0 || state->weights == state->inputs) return;
    if (rule == WEIGHT_FILL_ALL || gap_ns > find->idle_max_ns - state->idle_ns) {
        put_weight(state);
    }
}

/// Forwards of a rank's warmup beside the first, where the rule is a number.
static int planned_warmup(const search *find, int rank, const warmup *by)
{
    const rank_state *state = &find->ranks[rank];
    const int last = find->rank_count - 1;
    const int behind = last - rank;
    if (by->rule != WARMUP_SPREAD) return (by->quarters * behind + 3) / 4;
    if (last == 0) return 0;
    int64_t fitting = 2 * last; // zb-h2 never needs more
    if (state->memory_forward > 0) {
        const int64_t further = (state->memory_limit - forward_need(state)) / state->memory_forward;
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
    const rank_state *state = &find->ranks[rank];
    const int planned = planned_warmup(find, rank, by);
    int count = 0;
    int64_t held = state->held;
    *end_ns = state->free_ns;
    while (count + 1 < find->microbatch_count &&
           held + forward_need(state) <= state->memory_limit) {
        if (by->rule == WARMUP_NO_DELAY && *end_ns + state->forward_ns > gradient_ns) break;
        if (by->rule == WARMUP_NO_GAP && *end_ns >= gradient_ns) break;
        if (by->rule >= WARMUP_SLOPE && count == planned) break;
        held += state->memory_forward;
        *end_ns += state->forward_ns;
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
        put_forward(find, rank, forward_arrival(find, rank));
    }
    int64_t gradient_ns = 0;
    for (int rank = last; rank >= 0; rank--) {
        rank_state *state = &find->ranks[rank];
        int64_t end_ns = state->free_ns;
        state->warmup = rank == last ? 0 : count_warmup(find, rank, gradient_ns, by, &end_ns);
        const int64_t begin_ns = end_ns > gradient_ns ? end_ns : gradient_ns;
        gradient_ns = begin_ns + state->input_ns + state->send_backward_ns;
    }
    for (int rank = 0; rank <= last; rank++) {
        rank_state *state = &find->ranks[rank];
        const int most = rank > 0 ? warmup_most(find, by, state[-1].warmup) : state->warmup;
        if (state->warmup > most) state->warmup = most;
        for (int forward = 0; forward < state->warmup; forward++) {
            put_forward(find, rank, forward_arrival(find, rank));
        }
    }
}

/// Whether a forward may run before the next B at all: there is one, and memory for it once the
/// pending W are done.
static bool has_room_for_forward(const search *find, int rank)
{
    const rank_state *state = &find->ranks[rank];
    if (state->forwards == find->microbatch_count) return false;
    const int64_t pending = state->inputs - state->weights;
    return state->held + pending * state->memory_weight + forward_need(state) <=
           state->memory_limit;
}

/// Whether a rank that is at least two forwards ahead of the next one should leave out a forward,
/// because it would delay the next gradient and the wait for that is affordable.
static bool waits_for_gradient(const search *find, int rank)
{
    const rank_state *state = &find->ranks[rank];
    const rank_state *next = &find->ranks[rank + 1];
    if (state->forwards < next->forwards + 2) return false;
    const int64_t gradient_ns =
        next->free_ns + next->forward_ns + next->input_ns + next->send_backward_ns;
    if (state->free_ns >= gradient_ns) return true;
    int64_t held = state->held + forward_need(state);
    int64_t end_ns = state->free_ns + state->forward_ns;
    for (int weight = state->weights;
         weight < state->inputs && held > state->memory_limit && end_ns <= gradient_ns; weight++) {
        held += state->memory_weight;
        end_ns += state->weight_ns;
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
        rank_state *state = &find->ranks[rank];
        state->takes_forward = next_takes && has_room_for_forward(find, rank) &&
                               !(backward_first && rank < last && waits_for_gradient(find, rank));
        next_takes = state->takes_forward;
    }
}

static void run_forwards(search *find, weight_rule rule)
{
    for (int rank = 0; rank < find->rank_count; rank++) {
        rank_state *state = &find->ranks[rank];
        if (!state->takes_forward) continue;
        if (rank > 0 && state->forwards == state[-1].forwards) continue;
        free_memory(find, rank, forward_need(state));
        const int64_t arrival_ns = forward_arrival(find, rank);
        fill_gap(find, rank, arrival_ns, rule);
        put_forward(find, rank, arrival_ns);
    }
}

/// Sends one gradient up the ranks. Nobody waits for B of rank 0: once it has no forwards left, W
/// go first there, and its memory with them.
static void run_backwards(search *find, const plan *by)
{
    const int last = find->rank_count - 1;
    int64_t gradient_ns = 0;
    for (int rank = last; rank >= 0; rank--) {
        rank_state *state = &find->ranks[rank];
        free_memory(find, rank, state->memory_input);
        if (rank < last) fill_gap(find, rank, gradient_ns, by->weight);
        const bool weights_first =
            rank == 0 && by->weight != WEIGHT_HAND && state->forwards == find->microbatch_count;
        while (weights_first && state->weights < state->inputs) {
            put_weight(state);
        }
        put_input(find, rank, gradient_ns);
        gradient_ns = state->free_ns + state->send_backward_ns;
        if (by->weight == WEIGHT_HAND && state->weights + by->hand_depth * rank < state->inputs) {
            put_weight(state);
        }
    }
}

/// Sum over the ranks of the most microbatches in flight so far.
static int64_t in_flight_of(const search *find)
{
    int64_t sum = 0;
    for (int rank = 0; rank < find->rank_count; rank++) {
        sum += find->ranks[rank].in_flight_max;
    }
    return sum;
}

static void reset(search *find)
{
    const size_t row = 3 * (size_t)find->microbatch_count;
    find->idle_max_ns = 0;
    find->span_ns = find->orders.least_span_ns;
    find->makespan_ns = find->ranks[0].work_ns;
    for (int rank = 0; rank < find->rank_count; rank++) {
        rank_state *state = &find->ranks[rank];
        state->next_code = find->orders.codes + (size_t)rank * row;
        state->begin_ns = state->free_ns = state->idle_ns = state->held = 0;
        state->forwards = state->inputs = state->weights = state->in_flight_max = 0;
    }
}

/// Ends the order with the W that are left, and offers it.
static void finish(search *find)
{
    const int64_t in_flight = in_flight_of(find);
    for (int rank = 0; rank < find->rank_count; rank++) {
        rank_state *state = &find->ranks[rank];
        while (state->weights < find->microbatch_count) {
            put_weight(state);
        }
    }
    bal_order_search_offer(&find->orders, find->span_ns, find->makespan_ns, in_flight);
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
        const bal_order_search *orders = &find->orders;
        // What is in flight counts among equals, which few passes are: it is summed up only then.
        const int64_t in_flight = find->span_ns == orders->best_span_ns ? in_flight_of(find) : 0;
        if (bal_order_search_is_beaten(orders, find->span_ns, find->makespan_ns, in_flight)) return;
    }
    finish(find);
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
    int *const row = find->warmups + (size_t)index * rank_count;
    for (size_t rank = 0; rank < rank_count; rank++) {
        row[rank] = find->ranks[rank].warmup;
    }
    for (int before = 0; before < index; before++) {
        const int *const other = find->warmups + (size_t)before * rank_count;
        if (memcmp(row, other, rank_count * sizeof *row) == 0) return true;
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

static void carve(const bal_order_search *orders, arena *memory, search *find)
{
    const size_t rank_count = (size_t)orders->rank_count;
    *find = (search){
        .orders = *orders,
        .rank_count = orders->rank_count,
        .microbatch_count = orders->microbatch_count,
        .ranks = arena_array(memory, rank_count, sizeof *find->ranks),
        .warmups = arena_array(memory, WARMUP_COUNT * rank_count, sizeof *find->warmups),
    };
    for (size_t rank = 0; rank < rank_count; rank++) {
        const bal_order_rank *of = &orders->ranks[rank];
        find->ranks[rank] = (rank_state){
            .forward_ns = of->op_ns[OP_FORWARD],
            .input_ns = of->op_ns[OP_BACKWARD_INPUT],
            .weight_ns = of->op_ns[OP_BACKWARD_WEIGHT],
            .send_forward_ns = of->send_ns[OP_FORWARD],
            .send_backward_ns = of->send_ns[OP_BACKWARD_INPUT],
            .memory_forward = of->memory[OP_FORWARD],
            .memory_input = of->memory[OP_BACKWARD_INPUT],
            .memory_weight = of->memory[OP_BACKWARD_WEIGHT],
            .memory_limit = of->memory_limit,
            .work_ns = of->work_ns,
            .forward_end = of->arrival_ns[OP_FORWARD],
        };
    }
}

status bal_schedule_search_zb_auto(const bal_schedule_request *request, arena *memory, bal_op *ops,
                                   error_message *err)
{
    bal_order_search orders;
    search find;
    TRY(bal_order_search_begin(request, 1, 0, memory, &orders, err));
    carve(&orders, memory, &find);
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
