/// zb-auto: a searched zero-bubble order under a memory limit.
///
/// A pass builds a whole order in rounds. Round i lets forwards run down the ranks, then sends the
/// gradient of microbatch i up from the last rank; W fill the gaps in front of both. What a pass
/// decides by rules of thumb is named by a `plan`; all plans are tried, the smallest span wins,
/// then the smallest makespan, then the order that holds fewest microbatches, then the first.
///
/// Source: Qi et al., Zero bubble pipeline parallelism, ICLR 2024, section 3.1: warmup, priority of
/// B over F, and the rule for W in a gap, two variants each. Theirs are eight of the plans here;
/// further warmups and the hand orders, cut to the memory limit, are ours.
#include "balance/schedule_families.h"

#include <assert.h>
#include <inttypes.h>

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

/// The paper's two come first. Where the limit is below that of zb-h1, the flat slopes win.
static const warmup warmups[] = {
    {.rule = WARMUP_NO_DELAY, .is_staggered = true},
    {.rule = WARMUP_NO_GAP, .is_staggered = true},
    {.rule = WARMUP_NO_DELAY},
    {.rule = WARMUP_NO_GAP},
    {.rule = WARMUP_SPREAD},
    {.rule = WARMUP_SLOPE, .quarters = 1},
    {.rule = WARMUP_SLOPE, .quarters = 2},
    {.rule = WARMUP_SLOPE, .quarters = 3},
    {.rule = WARMUP_SLOPE, .quarters = 4},
    {.rule = WARMUP_SLOPE, .quarters = 4, .is_staggered = true},
    {.rule = WARMUP_SLOPE, .quarters = 6},
    {.rule = WARMUP_SLOPE, .quarters = 8},
    {.rule = WARMUP_SLOPE, .quarters = 8, .is_staggered = true},
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
    uint8_t *next_kind;   // where its next op is written
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
    int rank_count;
    int microbatch_count;
    rank_state *ranks;   // [rank_count]
    uint8_t *kinds;      // [rank_count][3 * microbatch_count] the order that a pass writes
    uint8_t *best_kinds; // same shape
    int64_t best_span_ns;
    int64_t best_makespan_ns;
    int64_t best_in_flight; // sum of in_flight_max over the ranks
    int64_t idle_max_ns;    // largest idle_ns of the pass
} search;

/// Appends the next op of a kind to a rank; its message arrives at arrival_ns.
static void put(search *find, int rank, bal_op_kind kind, int64_t arrival_ns)
{
    rank_state *state = &find->ranks[rank];
    const int64_t begin_ns = arrival_ns > state->free_ns ? arrival_ns : state->free_ns;
    *state->next_kind++ = (uint8_t)kind;
    if (state->forwards == 0) {
        state->begin_ns = begin_ns;
    } else {
        state->idle_ns += begin_ns - state->free_ns;
        if (state->idle_ns > find->idle_max_ns) find->idle_max_ns = state->idle_ns;
    }
    if (kind == OP_FORWARD) {
        state->free_ns = begin_ns + state->forward_ns;
        state->held += state->memory_forward;
        state->forward_end[state->forwards++] = state->free_ns;
        const int in_flight = state->forwards - state->weights;
        if (in_flight > state->in_flight_max) state->in_flight_max = in_flight;
    } else if (kind == OP_BACKWARD_INPUT) {
        state->free_ns = begin_ns + state->input_ns;
        state->held += state->memory_input;
        state->inputs++;
    } else {
        state->free_ns = begin_ns + state->weight_ns;
        state->held += state->memory_weight;
        state->weights++;
    }
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
    const rank_state *state = &find->ranks[rank];
    while (state->held + need > state->memory_limit && state->weights < state->inputs) {
        put(find, rank, OP_BACKWARD_WEIGHT, 0);
    }
}

/// Runs W while the rank would wait for a message: first those that end before it arrives, then
/// perhaps one that overruns. A rank that has waited less than the worst can afford the gap: only
/// the worst decides the span.
static void fill_gap(search *find, int rank, int64_t arrival_ns, weight_rule rule)
{
    const rank_state *state = &find->ranks[rank];
    if (rule == WEIGHT_HAND) return;
    while (state->weights < state->inputs && state->free_ns + state->weight_ns <= arrival_ns) {
        put(find, rank, OP_BACKWARD_WEIGHT, 0);
    }
    const int64_t gap_ns = arrival_ns - state->free_ns;
    if (gap_ns <= 0 || state->weights == state->inputs) return;
    if (rule == WEIGHT_FILL_ALL || gap_ns > find->idle_max_ns - state->idle_ns) {
        put(find, rank, OP_BACKWARD_WEIGHT, 0);
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
        put(find, rank, OP_FORWARD, forward_arrival(find, rank));
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
            put(find, rank, OP_FORWARD, forward_arrival(find, rank));
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
        put(find, rank, OP_FORWARD, arrival_ns);
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
            put(find, rank, OP_BACKWARD_WEIGHT, 0);
        }
        put(find, rank, OP_BACKWARD_INPUT, gradient_ns);
        gradient_ns = state->free_ns + state->send_backward_ns;
        if (by->weight == WEIGHT_HAND && state->weights + by->hand_depth * rank < state->inputs) {
            put(find, rank, OP_BACKWARD_WEIGHT, 0);
        }
    }
}

/// Whether the pass can no longer win: idle time never shrinks.
static bool is_beaten(const search *find)
{
    for (int rank = 0; rank < find->rank_count; rank++) {
        const rank_state *state = &find->ranks[rank];
        if (state->idle_ns > find->best_span_ns - state->work_ns) return true;
    }
    return false;
}

static void reset(search *find)
{
    const size_t row = 3 * (size_t)find->microbatch_count;
    find->idle_max_ns = 0;
    for (int rank = 0; rank < find->rank_count; rank++) {
        rank_state *state = &find->ranks[rank];
        state->next_kind = find->kinds + (size_t)rank * row;
        state->begin_ns = state->free_ns = state->idle_ns = state->held = 0;
        state->forwards = state->inputs = state->weights = state->in_flight_max = 0;
    }
}

/// Ends the order with the W that are left, and keeps it if it is the best so far.
static void finish(search *find)
{
    int64_t span_ns = 0;
    int64_t makespan_ns = 0;
    int64_t in_flight = 0;
    for (int rank = 0; rank < find->rank_count; rank++) {
        const rank_state *state = &find->ranks[rank];
        in_flight += state->in_flight_max;
        while (state->weights < find->microbatch_count) {
            put(find, rank, OP_BACKWARD_WEIGHT, 0);
        }
        const int64_t rank_span_ns = state->free_ns - state->begin_ns;
        if (rank_span_ns > span_ns) span_ns = rank_span_ns;
        if (state->free_ns > makespan_ns) makespan_ns = state->free_ns;
    }
    const bool is_tie = span_ns == find->best_span_ns && makespan_ns == find->best_makespan_ns;
    const bool is_better =
        span_ns < find->best_span_ns ||
        (span_ns == find->best_span_ns && makespan_ns < find->best_makespan_ns) ||
        (is_tie && in_flight < find->best_in_flight);
    if (!is_better) return;
    find->best_span_ns = span_ns;
    find->best_makespan_ns = makespan_ns;
    find->best_in_flight = in_flight;
    uint8_t *const written = find->kinds;
    find->kinds = find->best_kinds;
    find->best_kinds = written;
}

/// Builds one order, and gives it up once it can no longer win.
static void run_pass(search *find, const plan *by)
{
    reset(find);
    warm_up(find, &by->warmup);
    run_backwards(find, by);
    for (int microbatch = 1; microbatch < find->microbatch_count; microbatch++) {
        if (is_beaten(find)) return;
        choose_forwards(find, by->backward_first);
        run_forwards(find, by->weight);
        run_backwards(find, by);
    }
    finish(find);
}

/// The paper's eight plans come first, so that they win what is still a tie.
static void run_all(search *find)
{
    for (int index = 0; index < WARMUP_COUNT; index++) {
        for (int variant = 0; variant < 4; variant++) {
            const plan by = {.warmup = warmups[index],
                             .weight = variant % 2 == 0 ? WEIGHT_FILL_ALL : WEIGHT_FILL_PAST,
                             .backward_first = variant < 2};
            run_pass(find, &by);
        }
    }
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

/// Mean over the microbatches of one stage, rounded to the nearest ns.
static status mean_ns(const int64_t *stage_ns, int stage, int columns, const char *what,
                      int64_t *mean, error_message *err)
{
    const int64_t *row = stage_ns + (int64_t)stage * columns;
    int64_t sum = columns / 2;
    for (int column = 0; column < columns; column++) {
        if (row[column] < 0 || row[column] > INT64_MAX / 4 - sum) {
            return error_set(err, STATUS_INVALID,
                             "%s of stage %d: %" PRId64 " ns is negative or makes the sum over "
                             "the microbatches longer than %" PRId64 " ns",
                             what, stage, row[column], INT64_MAX / 4);
        }
        sum += row[column];
    }
    *mean = sum / columns;
    return STATUS_OK;
}

/// Memory that every order needs is that of one microbatch at a time.
static status read_memory(const bal_schedule_request *request, int rank, rank_state *state,
                          error_message *err)
{
    state->memory_limit = INT64_MAX / 4;
    if (request->memory_limit == NULL) return STATUS_OK;
    const bal_stage_costs *costs = request->costs;
    state->memory_forward = costs->memory_forward[rank];
    state->memory_input = costs->memory_backward_input[rank];
    state->memory_weight = costs->memory_backward_weight[rank];
    state->memory_limit = request->memory_limit[rank];
    const int64_t most = INT64_MAX / 4 / request->microbatch_count;
    const bool is_in_range = state->memory_forward >= 0 && state->memory_forward <= most &&
                             state->memory_weight <= 0 && state->memory_weight >= -most;
    if (!is_in_range || state->memory_forward + state->memory_weight != -state->memory_input) {
        return error_set(err, STATUS_INVALID,
                         "memory of stage %d changes by %" PRId64 ", %" PRId64 ", %" PRId64
                         " at F, B, W: F must take, W must give, and the sum be 0",
                         rank, state->memory_forward, state->memory_input, state->memory_weight);
    }
    if (state->memory_limit < forward_need(state)) {
        return error_set(err, STATUS_INFEASIBLE,
                         "rank %d needs memory %" PRId64
                         " for one microbatch; its limit is %" PRId64,
                         rank, forward_need(state), state->memory_limit);
    }
    return STATUS_OK;
}

/// Copies the costs of all ranks; no order is longer than all their work and messages in turn.
static status read_costs(const bal_schedule_request *request, search *find, error_message *err)
{
    const bal_stage_costs *costs = request->costs;
    const int columns = costs->microbatch_count;
    const int64_t most = INT64_MAX / 4 / request->microbatch_count / request->rank_count;
    for (int rank = 0; rank < request->rank_count; rank++) {
        rank_state *state = &find->ranks[rank];
        TRY(mean_ns(costs->forward_ns, rank, columns, "forward_ns", &state->forward_ns, err));
        TRY(mean_ns(costs->backward_input_ns, rank, columns, "backward_input_ns", &state->input_ns,
                    err));
        TRY(mean_ns(costs->backward_weight_ns, rank, columns, "backward_weight_ns",
                    &state->weight_ns, err));
        state->send_forward_ns = costs->send_forward_ns[rank];
        state->send_backward_ns = costs->send_backward_ns[rank];
        const int64_t parts[] = {state->forward_ns, state->input_ns, state->weight_ns,
                                 state->send_forward_ns, state->send_backward_ns};
        int64_t left = most;
        for (size_t part = 0; part < sizeof parts / sizeof parts[0]; part++) {
            if (parts[part] < 0 || parts[part] > left) {
                return error_set(err, STATUS_INVALID,
                                 "stage %d: its times are negative or sum to more than %" PRId64
                                 " ns for one microbatch",
                                 rank, most);
            }
            left -= parts[part];
        }
        state->work_ns =
            (state->forward_ns + state->input_ns + state->weight_ns) * request->microbatch_count;
        TRY(read_memory(request, rank, state, err));
    }
    return STATUS_OK;
}

static status carve(const bal_schedule_request *request, arena *memory, search *find,
                    error_message *err)
{
    const size_t rank_count = (size_t)request->rank_count;
    const size_t microbatch_count = (size_t)request->microbatch_count;
    const size_t cells = rank_count * microbatch_count;
    *find = (search){
        .rank_count = request->rank_count,
        .microbatch_count = request->microbatch_count,
        .ranks = arena_array(memory, rank_count, sizeof *find->ranks),
        .kinds = arena_array(memory, 3 * cells, sizeof *find->kinds),
        .best_kinds = arena_array(memory, 3 * cells, sizeof *find->best_kinds),
        .best_span_ns = INT64_MAX,
        .best_makespan_ns = INT64_MAX,
    };
    int64_t *forward_end = arena_array(memory, cells, sizeof *forward_end);
    if (find->ranks == NULL || find->kinds == NULL || find->best_kinds == NULL ||
        forward_end == NULL) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %zu ops", 3 * cells);
    }
    for (size_t rank = 0; rank < rank_count; rank++) {
        find->ranks[rank].forward_end = forward_end + rank * microbatch_count;
    }
    return STATUS_OK;
}

status bal_schedule_search_zb_auto(const bal_schedule_request *request, arena *memory, bal_op *ops,
                                   error_message *err)
{
    search find;
    TRY(carve(request, memory, &find, err));
    TRY(read_costs(request, &find, err));
    run_all(&find);
    const uint8_t *kind = find.best_kinds;
    for (int rank = 0; rank < find.rank_count; rank++) {
        int next_microbatch[OP_KIND_COUNT] = {0};
        for (int op = 0; op < 3 * find.microbatch_count; op++, kind++) {
            ops = bal_op_put(ops, (bal_op_kind)*kind, 0, next_microbatch[*kind]++);
        }
    }
    return STATUS_OK;
}
