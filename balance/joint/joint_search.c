/// The search itself: candidate partitions, the orders of each, and walks from the best.
#include "balance/joint/joint.h"

#include "balance/joint/joint_bound.h"
#include "balance/joint/joint_walk.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    SHAPES_MAX = 3,
    PARTITIONS_MAX = 16,          // candidates of a shape
    NEIGHBOUR_TRIES = 64,         // to find them
    SEARCHED_MAX = 6,             // of them that searched families are asked for
    WALKS_MAX = 8,                // places that walks begin from
    RUN_STEPS = 256,              // of a walk in the first round; the listener is asked as often
    LAST_RUN_STEPS = 8192,        // of the walks that are left at the end
    LAST_WALKS = 4,               // how many these are
    REFINE_STEPS = 10000,         // of a walk to a partition of a small bound
    CUTS_PURPOSE = (1 << 21) + 1, // of random numbers for partitions
    BUDGET_OPS = 1000000000,      // of the default budget
    BUDGET_PLAYS = 50000,
    BUDGET_LEAST = 1000,
};

/// One placement in question.
typedef struct shape_state {
    bal_joint_board board;
    int64_t bound_ns;
    int partition_count;
    int *partitions[PARTITIONS_MAX]; // [stages + 1] each
} shape_state;

typedef struct search {
    const bal_joint_question *question;
    arena *memory;
    arena *scratch; // reset for every schedule
    bal_joint_layers layers;
    shape_state shapes[SHAPES_MAX];
    int shape_count;
    int64_t bound_ns;
    int64_t play_count;
    bool is_interrupted;
    bool may_fit;                    // some placement's bound has not proven that nothing fits
    bal_joint_place tried;           // the candidate in hand
    bal_joint_walk walks[WALKS_MAX]; // from the best places of different partitions
    int walk_count;
    int best; // the walk of the shortest makespan
} search;

static int64_t best_ns(const search *state)
{
    return state->walk_count == 0 ? INT64_MAX : state->walks[state->best].best.makespan_ns;
}

static bool is_over(const search *state)
{
    return state->is_interrupted || state->play_count >= state->question->play_budget ||
           best_ns(state) <= state->bound_ns;
}

/// Takes work from the budget.
///
/// @return whether there was so much left
static bool spend(search *state, int64_t play_count)
{
    const bal_joint_listener *listener = state->question->listener;
    const int64_t left = state->question->play_budget - state->play_count;
    const int64_t spent = play_count < left ? play_count : left;
    state->play_count += spent;
    if (listener != NULL && !listener->go_on(listener->context, state->play_count)) {
        state->is_interrupted = true;
    }
    return spent == play_count;
}

static size_t cut_bytes(const bal_joint_board *board)
{
    return ((size_t)board->stage_count + 1) * sizeof(int);
}

/// Adds a partition to those of a shape, unless it is known, leaves a stage empty or does not fit.
static void add_partition(search *state, shape_state *shape, const int *first_layer)
{
    const int stages = shape->board.stage_count;
    const size_t bytes = cut_bytes(&shape->board);
    for (int stage = 0; stage < stages; stage++) {
        if (first_layer[stage] >= first_layer[stage + 1]) return;
    }
    for (int known = 0; known < shape->partition_count; known++) {
        if (memcmp(shape->partitions[known], first_layer, bytes) == 0) return;
    }
    if (bal_joint_partition_bound(&state->layers, shape->board.shape, first_layer) == INT64_MAX) {
        return;
    }
    assert(shape->partition_count < PARTITIONS_MAX);
    int *copy = arena_array(state->memory, (size_t)stages + 1, sizeof *copy);
    memcpy(copy, first_layer, bytes);
    shape->partitions[shape->partition_count++] = copy;
}

/// Adds what a walk makes of a partition.
static void add_refined(search *state, shape_state *shape, int *first)
{
    const uint64_t purpose = CUTS_PURPOSE + (uint64_t)shape->partition_count;
    rng random = rng_init(state->question->seed, purpose);
    bal_joint_refine(&state->layers, shape->board.shape, shape->bound_ns, REFINE_STEPS, &random,
                     state->memory, first);
    add_partition(state, shape, first);
}

/// The partitions into two chunks that the bound favours, by how the layers share out between the
/// first chunks and the second ones: alike, or most of them in the second.
static void add_near(search *state, shape_state *shape, int *first)
{
    const int mean = state->layers.layer_count / shape->board.stage_count;
    const int least[][2] = {{mean, mean}, {1, mean}, {1, 1}, {mean, 1}, {(mean + 1) / 2, mean}};
    for (size_t index = 0; index < sizeof least / sizeof least[0]; index++) {
        const status found =
            bal_joint_near_partition(&state->layers, shape->board.shape, least[index][0],
                                     least[index][1], state->memory, first, NULL);
        if (found == STATUS_OK) add_refined(state, shape, first);
    }
}

/// Adds partitions a few layers beside one, whether or not that fits.
static void add_neighbours(search *state, shape_state *shape, int *first)
{
    const int stages = shape->board.stage_count;
    int *next = arena_array(state->memory, (size_t)stages + 1, sizeof *next);
    rng random = rng_init(state->question->seed, CUTS_PURPOSE);
    for (int tries = 0; tries < NEIGHBOUR_TRIES && stages > 1; tries++) {
        if (shape->partition_count == PARTITIONS_MAX) return;
        memcpy(next, first, cut_bytes(&shape->board));
        if (!bal_joint_shift_cuts(stages, &random, next)) continue;
        memcpy(first, next, cut_bytes(&shape->board));
        add_partition(state, shape, first);
    }
}

/// The partitions to begin with: that of the smallest bound first.
///
/// @param first [stages + 1] that of the bound, which with two chunks may have empty stages
static void add_partitions(search *state, shape_state *shape, int *first)
{
    const bal_problem *problem = state->question->problem;
    const int stages = shape->board.stage_count;
    add_partition(state, shape, first);
    if (shape->board.shape.chunk_count == 2) add_near(state, shape, first);
    const bool has_current =
        problem->current_first_layer != NULL && shape->board.shape.chunk_count == 1 &&
        (problem->current_stage_count == 0 || problem->current_stage_count == stages);
    if (has_current) add_partition(state, shape, problem->current_first_layer);
    for (int stage = 0; stage <= stages; stage++) {
        first[stage] = (int)((int64_t)stage * state->layers.layer_count / stages);
    }
    add_refined(state, shape, first);
    add_neighbours(state, shape, first);
}

/// Whether a schedule has orders of these chunks in this placement.
static bool suits(const bal_schedule_family *family, bal_joint_shape shape)
{
    const bool has_count = family->chunk_count == shape.chunk_count ||
                           (family->chunk_count == 0 && shape.chunk_count == 2);
    return has_count && family->placement == shape.placement;
}

/// The first schedule of these chunks in this placement that takes the ranks and microbatches, so
/// that a plan can name it and be run; NULL: none.
static const bal_schedule_family *family_of(const bal_joint_layers *layers, bal_joint_shape shape)
{
    int count = 0;
    const bal_schedule_family *families = bal_schedule_families(&count);
    for (int index = 0; index < count; index++) {
        if (suits(&families[index], shape) &&
            bal_schedule_takes(&families[index], layers->rank_count, layers->microbatch_count)) {
            return &families[index];
        }
    }
    return NULL;
}

/// Bounds a shape and prepares it. Leaves it out where no partition of it fits.
static void add_shape(search *state, bal_joint_shape shape)
{
    const int wanted = state->question->chunk_count;
    if (wanted != 0 && wanted != shape.chunk_count) return;
    if (family_of(&state->layers, shape) == NULL) return;
    shape_state *made = &state->shapes[state->shape_count];
    const size_t stages = (size_t)state->layers.rank_count * (size_t)shape.chunk_count;
    int *first = arena_array(state->memory, stages + 1, sizeof *first);
    const status bounded =
        bal_joint_bound(&state->layers, shape, state->memory, first, &made->bound_ns, NULL);
    state->may_fit = state->may_fit || bounded != STATUS_INFEASIBLE;
    if (bounded != STATUS_OK) return;
    if (made->bound_ns < state->bound_ns) state->bound_ns = made->bound_ns;
    bal_joint_board_init(&state->layers, shape, state->memory, &made->board);
    add_partitions(state, made, first);
    if (made->partition_count > 0) state->shape_count++;
}

/// Says that no partition fits, or none was found.
static status explain_infeasible(const search *state, error_message *err)
{
    const bal_joint_layers *layers = &state->layers;
    const int count = layers->layer_count;
    int64_t limit = 0;
    int tightest = 0;
    for (int rank = 0; rank < layers->rank_count; rank++) {
        if (layers->memory_bytes[rank] < layers->memory_bytes[tightest]) tightest = rank;
        limit = layers->memory_bytes[rank] < INT64_MAX / 4 - limit
                    ? limit + layers->memory_bytes[rank]
                    : INT64_MAX / 4;
    }
    return error_set(err, STATUS_INFEASIBLE,
                     "no partition%s %s within the memory of every rank: all layers and one "
                     "microbatch need %" PRId64 " bytes, all ranks together have %" PRId64
                     "; the least is that of rank %d, %" PRId64,
                     state->question->chunk_count == 2 ? " into two chunks per rank" : "",
                     state->may_fit ? "was found" : "fits",
                     layers->state_before[count] + layers->held_before[count], limit, tightest,
                     layers->memory_bytes[tightest]);
}

/// Carves walks and the candidate in hand for the largest shape.
static void carve_walks(search *state)
{
    const int stages = 2 * state->layers.rank_count;
    const int ops = 3 * stages * state->layers.microbatch_count;
    bal_joint_place_init(stages, ops, state->memory, &state->tried);
    for (int index = 0; index < WALKS_MAX; index++) {
        bal_joint_walk *walk = &state->walks[index];
        bal_joint_place_init(stages, ops, state->memory, &walk->here);
        bal_joint_place_init(stages, ops, state->memory, &walk->best);
        walk->spare_first_layer =
            arena_array(state->memory, (size_t)stages + 1, sizeof *walk->spare_first_layer);
    }
}

/// Moves a walk in front of those that have come less far; equal ones stay in their order.
static void rank_walk(search *state, int at)
{
    bal_joint_walk *walks = state->walks;
    for (; at > 0 && walks[at].best.makespan_ns < walks[at - 1].best.makespan_ns; at--) {
        const bal_joint_walk better = walks[at];
        walks[at] = walks[at - 1];
        walks[at - 1] = better;
    }
}

static bool has_same_cuts(const bal_joint_place *a, const bal_joint_place *b)
{
    return a->board == b->board && memcmp(a->first_layer, b->first_layer, cut_bytes(a->board)) == 0;
}

/// Keeps the candidate in hand, if it is among the best orders of different partitions.
static void keep(search *state)
{
    int at = 0;
    while (at < state->walk_count && !has_same_cuts(&state->walks[at].best, &state->tried)) {
        at++;
    }
    if (at == WALKS_MAX) at--; // the worst
    if (state->tried.makespan_ns >= state->walks[at].best.makespan_ns) return;
    if (at == state->walk_count) state->walk_count++;
    bal_joint_place_copy(&state->tried, &state->walks[at].best);
    rank_walk(state, at);
}

/// Plays the candidate in hand.
static void consider(search *state, const char *source)
{
    bal_joint_place *tried = &state->tried;
    tried->makespan_ns = bal_joint_play(tried->board, tried->lines, INT64_MAX);
    tried->source = source;
    if (tried->makespan_ns < INT64_MAX) keep(state);
}

static const bal_joint_rule rules[] = {
    {.warmup_quarters = 4, .gap_quarters = 4},
    {.warmup_quarters = 4},
    {.warmup_quarters = 6, .gap_quarters = 4},
    {.warmup_quarters = 8, .gap_quarters = 4},
    {.warmup_quarters = 8},
    {.warmup_quarters = 8, .forward_first = true, .gap_quarters = 4},
    {.gap_quarters = 4},
    {.gap_quarters = 1},
    {.forward_first = true, .gap_quarters = 4},
    {.warmup_quarters = 8, .outer_first = true, .gap_quarters = 4}, // two chunks from here on
    {.warmup_quarters = 6, .outer_first = true, .gap_quarters = 4},
    {.outer_first = true, .gap_quarters = 4},
    {.outer_first = true, .forward_first = true, .gap_quarters = 4},
};
enum { RULE_COUNT = sizeof rules / sizeof rules[0], RULES_OF_ONE_CHUNK = 9 };

/// Plays what the rules make of the partition on the board. The first order counts whatever the
/// budget is, so that there is an answer.
static void consider_rules(search *state)
{
    bal_joint_board *board = state->tried.board;
    const int count = board->shape.chunk_count == 2 ? RULE_COUNT : RULES_OF_ONE_CHUNK;
    for (int rule = 0; rule < count && !is_over(state); rule++) {
        if (!spend(state, BAL_JOINT_DISPATCH_PLAYS) && state->walk_count > 0) return;
        if (bal_joint_dispatch(board, &rules[rule], state->tried.lines)) {
            consider(state, "dispatch");
        }
    }
}

/// Plays what a family makes of the partition on the board; where its backwards are full and there
/// is a split, with B and W apart, which later steps can move.
static void consider_family(search *state, const char *family)
{
    bal_joint_board *board = state->tried.board;
    int64_t placed = 0;
    const bal_schedule_request request = {.name = family,
                                          .rank_count = board->rank_count,
                                          .microbatch_count = board->microbatch_count,
                                          .chunk_count = board->shape.chunk_count,
                                          .costs = &board->costs,
                                          .memory_limit = board->room_bytes,
                                          .placed_op_count = &placed};
    bal_schedule schedule;
    arena_reset(state->scratch);
    const status built = bal_schedule_build(&request, state->scratch, &schedule, NULL);
    if (!spend(state, placed / board->op_count + 1)) return;
    if (built != STATUS_OK) return; // it has no order for these counts or this memory
    if (!bal_joint_lines_of(board, &schedule, state->tried.lines)) return;
    if (!bal_joint_lines_fit(board, state->tried.lines)) return;
    consider(state, schedule.has_split == board->has_split ? family : "local search");
}

static void consider_families(search *state, bool with_searched)
{
    int count = 0;
    const bal_schedule_family *families = bal_schedule_families(&count);
    for (int index = 0; index < count && !is_over(state); index++) {
        const bal_schedule_family *family = &families[index];
        if (!suits(family, state->tried.board->shape)) continue;
        if (family->is_searched && !with_searched) continue;
        if (strcmp(family->name, "v-adaptive") == 0) continue; // as long as all the rest
        consider_family(state, family->name);
    }
}

/// All partitions of all shapes, in turn, so that a small budget sees every shape.
static void consider_all(search *state)
{
    for (int partition = 0; partition < PARTITIONS_MAX; partition++) {
        for (int shape = 0; shape < state->shape_count && !is_over(state); shape++) {
            shape_state *own = &state->shapes[shape];
            if (partition >= own->partition_count) continue;
            state->tried.board = &own->board;
            memcpy(state->tried.first_layer, own->partitions[partition], cut_bytes(&own->board));
            bal_joint_board_set(&own->board, own->partitions[partition]);
            consider_rules(state);
            consider_families(state, partition < SEARCHED_MAX);
        }
    }
}

/// Walks one of them on, as far as the budget goes.
///
/// @param step_count a multiple of RUN_STEPS
static void walk_on(search *state, int index, int64_t step_count)
{
    bal_joint_walk *walk = &state->walks[index];
    for (int64_t step = 0; step < step_count && !is_over(state); step += RUN_STEPS) {
        const int64_t left = state->question->play_budget - state->play_count;
        spend(state, bal_joint_walk_on(walk, left < RUN_STEPS ? left : RUN_STEPS, state->bound_ns));
        if (walk->best.makespan_ns < best_ns(state)) state->best = index;
    }
}

/// Rounds of walks, twice as long each time: of all, and then of the best of them.
static void walk_all(search *state)
{
    int count = state->walk_count;
    for (int index = 0; index < count; index++) {
        bal_joint_walk_begin(&state->walks[index], state->question->seed, (uint64_t)index);
    }
    for (int64_t steps = RUN_STEPS; !is_over(state);
         steps = steps < LAST_RUN_STEPS ? 2 * steps : steps) {
        for (int index = 0; index < count && !is_over(state); index++) {
            walk_on(state, index, steps);
        }
        if (is_over(state)) return;
        for (int index = 1; index < count; index++) {
            rank_walk(state, index);
        }
        state->best = 0;
        count = count > LAST_WALKS ? (count + 1) / 2 : count;
    }
}

/// What the ranks hold at most: what their state takes of their caps, and their lines.
static int64_t *peaks_of(const search *state, const bal_joint_place *place)
{
    const bal_joint_board *board = place->board;
    int64_t *peaks = arena_array(state->memory, (size_t)board->rank_count, sizeof *peaks);
    for (int rank = 0; rank < board->rank_count; rank++) {
        const bal_joint_code *line = place->lines + bal_joint_line_begin(board, rank);
        peaks[rank] = state->layers.memory_bytes[rank] - board->room_bytes[rank] +
                      bal_joint_line_peak_bytes(board, rank, line);
    }
    return peaks;
}

static void fill_answer(search *state, bal_joint_answer *answer)
{
    const bal_joint_place *best = &state->walks[state->best].best;
    bal_joint_board *board = best->board;
    bal_joint_board_set(board, best->first_layer);
    bal_joint_answer made = {.shape = board->shape,
                             .first_layer = best->first_layer,
                             .source = best->source,
                             .makespan_ns = best->makespan_ns,
                             .lower_bound_ns = state->bound_ns,
                             .partition_bound_ns = bal_joint_partition_bound(
                                 &state->layers, board->shape, best->first_layer),
                             .costs = board->costs,
                             .peak_bytes = peaks_of(state, best),
                             .optimal = best->makespan_ns == state->bound_ns,
                             .play_count = state->play_count};
    assert(made.makespan_ns >= made.lower_bound_ns); // the bounds are proven
    assert(made.makespan_ns >= made.partition_bound_ns);
    const char *name = bal_schedule_family_find(best->source) != NULL
                           ? best->source
                           : family_of(&state->layers, board->shape)->name;
    bal_joint_lines_schedule(board, best->lines, name, state->memory, &made.order);
    *answer = made;
}

static status search_all(search *state, bal_joint_answer *answer, error_message *err)
{
    static const bal_joint_shape shapes[SHAPES_MAX] = {
        {.chunk_count = 1, .placement = BAL_PLACEMENT_LOOP},
        {.chunk_count = 2, .placement = BAL_PLACEMENT_V},
        {.chunk_count = 2, .placement = BAL_PLACEMENT_LOOP}};
    for (int shape = 0; shape < SHAPES_MAX; shape++) {
        add_shape(state, shapes[shape]);
    }
    if (state->shape_count == 0) return explain_infeasible(state, err);
    carve_walks(state);
    consider_all(state);
    walk_all(state);
    if (state->is_interrupted) return error_set(err, STATUS_BACKEND, "interrupted");
    fill_answer(state, answer);
    return STATUS_OK;
}

int64_t bal_joint_budget_default(int rank_count, int microbatch_count)
{
    const int64_t order_ops = (int64_t)6 * rank_count * microbatch_count;
    const int64_t plays = BUDGET_OPS / order_ops;
    if (plays > BUDGET_PLAYS) return BUDGET_PLAYS;
    return plays > BUDGET_LEAST ? plays : BUDGET_LEAST;
}

status bal_joint_search(const bal_joint_question *question, arena *memory, bal_joint_answer *answer,
                        error_message *err)
{
    if (question->play_budget < 1) {
        return error_set(err, STATUS_INVALID, "play_budget %" PRId64 " is below 1",
                         question->play_budget);
    }
    if (question->chunk_count < 0 || question->chunk_count > 2) {
        return error_set(err, STATUS_INVALID, "chunk_count %d: the joint search has 1 or 2",
                         question->chunk_count);
    }
    search *state = arena_array(memory, 1, sizeof *state);
    state->question = question;
    state->memory = memory;
    state->bound_ns = INT64_MAX;
    TRY(bal_joint_layers_of(question->problem, memory, &state->layers, err));
    if (question->chunk_count * state->layers.rank_count > state->layers.layer_count) {
        return error_set(err, STATUS_INVALID, "%d ranks of %d chunks exceed layer_count %d",
                         state->layers.rank_count, question->chunk_count,
                         state->layers.layer_count);
    }
    state->scratch = arena_create(1 << 20);
    const status result = search_all(state, answer, err);
    arena_destroy(state->scratch);
    return result;
}
