/// zb-v: a searched zero-bubble order of two chunks per rank in V placement, under a memory limit.
///
/// A pass builds a whole order in rounds: after a warmup in which forwards fill the memory, every
/// round lets each rank run one B, then one F, of the chunk that is ready; W fill the gaps. What a
/// pass decides by rules of thumb is named by a `plan`; all plans are tried that do not lead to an
/// order that was tried before, and beside them fixed orders, and dispatch as it comes
/// (order_pass.h), which wins where memory is short or stages differ.
///
/// Source: Qi et al., Zero bubble pipeline parallelism, arXiv 2401.10241, section 6 (ZB-V), and the
/// rule for W of section 3.1, also applied with the slack that the pass before has left. Their
/// search knows one cost for all stages; here every chunk has its own, and so has every rank its
/// memory.
#include "balance/schedule/order_pass.h"
#include "balance/schedule/order_search.h"
#include "balance/schedule/schedule_families.h"

enum { DOWN_F, UP_F, DOWN_B, UP_B, SWEEPS, CHUNKS = 2, PASSES_MAX = 6 };
enum { PLAN_COUNT = 11 };

/// Whether a W that would overrun the next arrival runs in front of it.
typedef enum weight_rule {
    WEIGHT_PAST, ///< where the rank cannot afford the gap
    WEIGHT_ALL,
    WEIGHT_NEVER,
} weight_rule;

/// What a pass decides by.
typedef struct plan {
    weight_rule before[SWEEPS];
    bool fills_warmup; // one more row of forwards, so that no rank waits for its first gradient
    bool keeps_room;   // a forward of chunk 0 leaves memory for one of chunk 1
} plan;

static const plan plans[PLAN_COUNT] = {
    {.before = {WEIGHT_PAST, WEIGHT_PAST, WEIGHT_PAST, WEIGHT_PAST}},
    {.before = {WEIGHT_PAST, WEIGHT_PAST, WEIGHT_NEVER, WEIGHT_PAST}},
    {.before = {WEIGHT_NEVER, WEIGHT_NEVER, WEIGHT_PAST, WEIGHT_PAST}},
    {.before = {WEIGHT_NEVER, WEIGHT_NEVER, WEIGHT_NEVER, WEIGHT_PAST}},
    {.before = {WEIGHT_PAST, WEIGHT_PAST, WEIGHT_PAST, WEIGHT_PAST}, .fills_warmup = true},
    {.before = {WEIGHT_PAST, WEIGHT_PAST, WEIGHT_NEVER, WEIGHT_PAST}, .fills_warmup = true},
    {.before = {WEIGHT_NEVER, WEIGHT_NEVER, WEIGHT_PAST, WEIGHT_PAST}, .fills_warmup = true},
    {.before = {WEIGHT_NEVER, WEIGHT_NEVER, WEIGHT_NEVER, WEIGHT_PAST}, .fills_warmup = true},
    {.before = {WEIGHT_ALL, WEIGHT_ALL, WEIGHT_ALL, WEIGHT_ALL}},
    {.before = {WEIGHT_PAST, WEIGHT_PAST, WEIGHT_PAST, WEIGHT_PAST}, .keeps_room = true},
    {.before = {WEIGHT_ALL, WEIGHT_ALL, WEIGHT_ALL, WEIGHT_ALL}, .keeps_room = true},
};

/// In the order in which they win.
static const bal_greedy_plan greedy_plans[] = {
    {.first = {UP_B, DOWN_B, UP_F, DOWN_F},
     .alternates = true,
     .overruns_backward = true,
     .overruns_forward = true},
    {.first = {UP_F, DOWN_B, UP_B, DOWN_F},
     .overruns_backward = true,
     .overruns_forward = true,
     .held_factor = 1},
    {.first = {UP_B, DOWN_B, UP_F, DOWN_F}, .alternates = true, .held_factor = 1},
    {.first = {UP_B, DOWN_B, UP_F, DOWN_F}, .overruns_backward = true, .held_factor = 1},
    {.first = {UP_F, UP_B, DOWN_B, DOWN_F}, .alternates = true},
    {.first = {DOWN_B, UP_F, UP_B, DOWN_F}, .overruns_forward = true, .held_factor = 1},
};

/// What a pass came to ask of its plan: another plan with the same answers has the same pass.
typedef struct trail {
    const plan *by;         // NULL: there was no pass
    bool gaps[SWEEPS][2];   // before a sweep, about a gap that the rank can [0], cannot [1] afford
    bool asks_fills_warmup; // where that decided
    bool asks_keeps_room;   // likewise
} trail;

typedef struct rounds {
    bal_order_pass order;
    trail trail;
    int64_t *allowed_idle_ns; // [rank_count] that the pass before proved harmless
    int64_t *afforded_ns;     // [rank_count] the least, and
    int64_t *refused_ns;      // [rank_count] what is too much to allow for the same pass
    uint8_t *chosen;          // [rank_count] scratch
} rounds;

static void put_weight(rounds *pass, int rank)
{
    bal_order_pass_put_weight(&pass->order, rank, pass->order.ranks[rank].free_ns);
}

/// Whether the next microbatch of a sweep has been sent to a rank.
static bool is_known(const rounds *pass, int rank, int sweep)
{
    const bal_pass_rank *state = &pass->order.ranks[rank];
    return state->done[sweep] < state->known[sweep];
}

/// Whether a rank cannot afford to have been idle for so long: only the longest span counts.
static bool is_refused(const rounds *pass, int rank, int64_t idle_ns)
{
    if (idle_ns <= pass->order.span_ns - pass->order.find->ranks[rank].work_ns) return false;
    if (idle_ns <= pass->allowed_idle_ns[rank]) {
        pass->afforded_ns[rank] = bal_larger(pass->afforded_ns[rank], idle_ns);
        return false;
    }
    if (idle_ns < pass->refused_ns[rank]) pass->refused_ns[rank] = idle_ns;
    return true;
}

/// Whether W runs into a gap.
static bool runs_weight(weight_rule rule, bool is_refused_gap)
{
    return rule == WEIGHT_ALL || (rule == WEIGHT_PAST && is_refused_gap);
}

/// Runs W before an op of a sweep: first those that end before its message arrives, then perhaps
/// one that overruns.
static void fill_gap(rounds *pass, int rank, int sweep)
{
    const bal_pass_rank *state = &pass->order.ranks[rank];
    const bal_order_rank *of = &pass->order.find->ranks[rank];
    const int64_t arrival_ns = of->arrival_ns[sweep][state->done[sweep]];
    while (bal_pass_has_weight(state) &&
           state->free_ns + of->op_ns[state->pending[state->pending_first]] <= arrival_ns) {
        put_weight(pass, rank);
    }
    const int64_t gap_ns = arrival_ns - state->free_ns;
    if (gap_ns <= 0 || !bal_pass_has_weight(state)) return;
    const bool is_refused_gap = is_refused(pass, rank, state->idle_ns + gap_ns);
    pass->trail.gaps[sweep][is_refused_gap] = true;
    if (runs_weight(pass->trail.by->before[sweep], is_refused_gap)) put_weight(pass, rank);
}

/// Runs W until the next op of a sweep fits. False if it cannot.
static bool make_room(rounds *pass, int rank, int sweep)
{
    const bal_pass_rank *state = &pass->order.ranks[rank];
    const bal_order_rank *of = &pass->order.find->ranks[rank];
    if (state->held + state->pending_memory + of->memory[sweep] > of->memory_limit) return false;
    while (state->held + of->memory[sweep] > of->memory_limit) {
        put_weight(pass, rank);
    }
    return true;
}

/// Runs the next op of a sweep, W before it as memory needs. False if it cannot run.
static bool run_sweep(rounds *pass, int rank, int sweep)
{
    const bal_pass_rank *state = &pass->order.ranks[rank];
    const bal_order_rank *of = &pass->order.find->ranks[rank];
    if (!is_known(pass, rank, sweep) || !make_room(pass, rank, sweep)) return false;
    const int64_t arrival_ns = of->arrival_ns[sweep][state->done[sweep]];
    const int64_t begin_ns = arrival_ns > state->free_ns ? arrival_ns : state->free_ns;
    bal_order_pass_put_sweep(&pass->order, rank, sweep, begin_ns);
    return true;
}

/// Whether another forward of chunk 0 fits on a rank, with what has to follow.
static bool fits_forward(rounds *pass, int rank)
{
    const bal_pass_rank *state = &pass->order.ranks[rank];
    const bal_order_rank *of = &pass->order.find->ranks[rank];
    const int64_t room = of->memory_limit - state->held - state->pending_memory;
    const bool leaves_room = of->need[DOWN_F] <= room;
    if (leaves_room == (of->memory[DOWN_F] <= room)) return leaves_room;
    pass->trail.asks_keeps_room = true;
    return !pass->trail.by->keeps_room;
}

/// Whether ranks 0 to rank have memory for one more forward each, and rank time for it before the
/// first microbatch comes back up.
static bool fits_row(rounds *pass, int rank)
{
    const bal_pass_rank *state = &pass->order.ranks[rank];
    const bal_order_rank *of = &pass->order.find->ranks[rank];
    // Divided, not multiplied: many ranks times a large activation need not fit 64 bits.
    const int64_t row_memory = (of->memory_limit - state->held) / (1 + rank);
    const int64_t arrival_ns = of->arrival_ns[UP_F][0];
    if (state->done[DOWN_F] == pass->order.find->microbatch_count) return false;
    if (of->memory[DOWN_F] + of->memory[UP_F] > row_memory) return false;
    if (state->free_ns > arrival_ns) return false;
    for (int before = 0; before < rank; before++) {
        if (!fits_forward(pass, before)) return false;
    }
    if (state->free_ns + of->op_ns[DOWN_F] <= arrival_ns) return true;
    pass->trail.asks_fills_warmup = true;
    return pass->trail.by->fills_warmup;
}

/// Forwards of chunk 0 while the first microbatch is on its way down and up.
static void warm_up(rounds *pass)
{
    const int last = pass->order.find->rank_count - 1;
    for (int rank = 0; rank <= last; rank++) {
        run_sweep(pass, rank, DOWN_F);
    }
    for (int rank = last; rank >= 0; rank--) {
        while (rank < last && fits_row(pass, rank)) {
            for (int before = 0; before <= rank; before++) {
                run_sweep(pass, before, DOWN_F);
            }
        }
        run_sweep(pass, rank, UP_F);
    }
}

/// Whether a rank has run fewer forwards than the one before it.
static bool lags(const rounds *pass, int rank)
{
    const int *done = pass->order.ranks[rank].done;
    const int *before = pass->order.ranks[rank - 1].done;
    return done[DOWN_F] + done[UP_F] < before[DOWN_F] + before[UP_F] ||
           (done[UP_F] <= before[UP_F] && before[UP_F] < pass->order.find->microbatch_count);
}

/// Forwards of both chunks in turn, until every rank has run as many as the one before it.
static void level(rounds *pass)
{
    int sweep = DOWN_F;
    for (int rank = 1; rank < pass->order.find->rank_count; rank++) {
        for (int idle = 0; idle < 2 && lags(pass, rank);) {
            bool ran = false;
            for (int behind = pass->order.find->rank_count - 1; behind >= rank; behind--) {
                if (sweep == DOWN_F && !fits_forward(pass, behind)) continue;
                ran = run_sweep(pass, behind, sweep) || ran;
            }
            idle = ran ? 0 : idle + 1;
            sweep = sweep == DOWN_F ? UP_F : DOWN_F;
        }
    }
}

/// The backward of a round: of chunk 0 where one has been sent, else of chunk 1.
static int choose_backward(const rounds *pass, int rank)
{
    const bal_pass_rank *state = &pass->order.ranks[rank];
    if (state->done[UP_B] >= state->done[DOWN_B]) return DOWN_B;
    if (rank == pass->order.find->rank_count - 1 || is_known(pass, rank, UP_B)) return UP_B;
    return state->done[DOWN_B] == pass->order.find->microbatch_count ? UP_B : DOWN_B;
}

static bool run_backward(rounds *pass, int rank, int sweep)
{
    if (!is_known(pass, rank, sweep)) return false;
    fill_gap(pass, rank, sweep);
    return run_sweep(pass, rank, sweep);
}

/// One B per rank. Which chunk's is decided for all before any runs; gradients of chunk 0 go first.
static bool run_backwards(rounds *pass)
{
    const int last = pass->order.find->rank_count - 1;
    uint8_t *const chosen = pass->chosen;
    bool ran = false;
    for (int rank = 0; rank <= last; rank++) {
        chosen[rank] = (uint8_t)choose_backward(pass, rank);
    }
    for (int rank = last; rank >= 0; rank--) {
        if (chosen[rank] == UP_B) ran = run_backward(pass, rank, UP_B) || ran;
    }
    for (int rank = 0; rank <= last; rank++) {
        if (chosen[rank] == DOWN_B) ran = run_backward(pass, rank, DOWN_B) || ran;
    }
    return ran;
}

/// One F per rank: of chunk 1 where one has been sent, else of chunk 0 if it fits.
static bool run_forwards(rounds *pass)
{
    bool ran = false;
    for (int rank = 0; rank < pass->order.find->rank_count; rank++) {
        const bool is_up = is_known(pass, rank, UP_F);
        if (!is_up && (!is_known(pass, rank, DOWN_F) || !fits_forward(pass, rank))) continue;
        const int sweep = is_up ? UP_F : DOWN_F;
        if (!make_room(pass, rank, sweep)) continue;
        fill_gap(pass, rank, sweep);
        ran = run_sweep(pass, rank, sweep) || ran;
    }
    return ran;
}

/// Builds and offers one order.
///
/// @return its span; INT64_MAX if no rank could go on, or if it is not the best
static int64_t run_pass(rounds *pass, const plan *by)
{
    const int rank_count = pass->order.find->rank_count;
    pass->trail = (trail){.by = by};
    for (int rank = 0; rank < rank_count; rank++) {
        pass->afforded_ns[rank] = 0;
        pass->refused_ns[rank] = INT64_MAX;
    }
    bal_order_pass_reset(&pass->order);
    warm_up(pass);
    level(pass);
    for (bool ran = true; ran;) {
        ran = run_backwards(pass);
        ran = run_forwards(pass) || ran;
        bal_order_search_count(pass->order.find, 3 * (int64_t)rank_count);
        if (bal_order_pass_is_beaten(&pass->order)) return INT64_MAX;
    }
    for (int rank = 0; rank < rank_count; rank++) {
        if (pass->order.ranks[rank].done[UP_B] < pass->order.find->microbatch_count)
            return INT64_MAX;
        while (bal_pass_has_weight(&pass->order.ranks[rank])) {
            put_weight(pass, rank);
        }
    }
    bal_order_pass_offer(&pass->order);
    return pass->order.span_ns;
}

/// Allows every rank the idle time that a pass has shown it to be able to afford. Whether that
/// changes anything.
static bool allow_idle(const rounds *pass, int64_t span_ns)
{
    bool changes = false;
    for (int rank = 0; rank < pass->order.find->rank_count; rank++) {
        const int64_t idle_ns = pass->order.ranks[rank].idle_ns;
        const int64_t own_ns = pass->order.find->ranks[rank].work_ns + idle_ns;
        const int64_t allowed_ns = span_ns - own_ns;
        pass->allowed_idle_ns[rank] = allowed_ns;
        changes =
            changes || allowed_ns < pass->afforded_ns[rank] || allowed_ns >= pass->refused_ns[rank];
    }
    return changes;
}

/// Passes by one plan, each with the idle time that the one before has allowed, while that helps.
/// The trail of the first.
static trail run_plan(rounds *pass, const plan *by)
{
    for (int rank = 0; rank < pass->order.find->rank_count; rank++) {
        pass->allowed_idle_ns[rank] = 0;
    }
    int64_t before_ns = run_pass(pass, by);
    const trail first = pass->trail;
    for (int count = 1; count < PASSES_MAX && before_ns < INT64_MAX; count++) {
        if (!allow_idle(pass, before_ns)) break;
        const int64_t span_ns = run_pass(pass, by);
        if (span_ns >= before_ns) break;
        before_ns = span_ns;
    }
    return first;
}

/// Whether the first pass by a plan would go as the one that left a trail.
static bool goes_alike(const trail *left, const plan *by)
{
    if (left->by == NULL) return false;
    if (left->asks_fills_warmup && by->fills_warmup != left->by->fills_warmup) return false;
    if (left->asks_keeps_room && by->keeps_room != left->by->keeps_room) return false;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (int refused = 0; refused < 2; refused++) {
            if (left->gaps[sweep][refused] && runs_weight(by->before[sweep], refused) !=
                                                  runs_weight(left->by->before[sweep], refused)) {
                return false;
            }
        }
    }
    return true;
}

static void run_rounds(bal_order_search *find, arena *memory)
{
    const size_t rank_count = (size_t)find->rank_count;
    trail trails[PLAN_COUNT] = {0};
    rounds pass = {0};
    bal_order_pass_init(find, memory, &pass.order);
    pass.allowed_idle_ns = arena_array(memory, rank_count, sizeof *pass.allowed_idle_ns);
    pass.afforded_ns = arena_array(memory, rank_count, sizeof *pass.afforded_ns);
    pass.refused_ns = arena_array(memory, rank_count, sizeof *pass.refused_ns);
    pass.chosen = arena_array(memory, rank_count, sizeof *pass.chosen);
    for (int index = 0; index < PLAN_COUNT; index++) {
        int before = 0;
        while (before < index && !goes_alike(&trails[before], &plans[index])) {
            before++;
        }
        if (before == index) trails[index] = run_plan(&pass, &plans[index]);
    }
}

/// Offers the fixed orders of the same placement: the hand-made one and, where it does not fit,
/// those of building blocks that hold less. ops is scratch.
static status offer_fixed(bal_order_search *find, const bal_schedule_request *request,
                          arena *memory, bal_op *ops, error_message *err)
{
    const int rank_count = request->rank_count;
    const bal_schedule_counts counts = {rank_count, CHUNKS, request->microbatch_count};
    bal_op *next = ops;
    for (int rank = 0; rank < rank_count; rank++) {
        next = bal_schedule_fill_zb_v_hand(counts, rank, next);
    }
    bal_order_search_offer_ops(find, ops);
    if (find->best_span_ns < INT64_MAX) return STATUS_OK;
    TRY(bal_schedule_order_v_half(request, memory, ops, err));
    bal_order_search_offer_ops(find, ops);
    TRY(bal_schedule_order_v_min(request, memory, ops, err));
    bal_order_search_offer_ops(find, ops);
    return STATUS_OK;
}

status bal_schedule_search_zb_v(const bal_schedule_request *request, arena *memory, bal_op *ops,
                                error_message *err)
{
    bal_order_search find;
    TRY(bal_order_search_begin(request, CHUNKS, 2 * (int64_t)request->rank_count, memory, &find,
                               err));
    TRY(offer_fixed(&find, request, memory, ops, err));
    run_rounds(&find, memory);
    bal_order_search_greedy(&find, greedy_plans, sizeof greedy_plans / sizeof greedy_plans[0],
                            memory);
    if (find.best_span_ns == INT64_MAX) bal_order_search_offer_serial(&find);
    bal_order_search_improve(&find);
    bal_order_search_write(&find, ops);
    return STATUS_OK;
}
