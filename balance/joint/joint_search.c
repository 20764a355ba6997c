/// The search itself: candidate partitions, the orders of each, and walks from the best.
#include "balance/joint/joint.h"

#include "balance/joint/joint_bound.h"
#include "balance/joint/joint_walk.h"
#include "balance/partition/chain.h"
#include "balance/partition/partition.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    SHAPES_MAX = 3,
    PARTITIONS_MAX = 24,   // candidates of a shape
    SEARCHED_MAX = 6,      // of them that searched families are asked for
    WALKS_MAX = 8,         // places that walks begin from
    RUN_STEPS = 256,       // of a walk in the first round; the listener is asked as often
    LAST_RUN_STEPS = 8192, // of the walks that are left at the end
    REFINE_STEPS = 10000,  // of a walk to a partition of a small bound
    REFINE_PURPOSE = 1 << 21,
    BUDGET_OPS = 1000000000, // of the default budget
    BUDGET_PLAYS = 50000,
    BUDGET_LEAST = 1000,
};

/// One placement in question.
typedef struct shape_state {
    bal_joint_ground ground;
    int64_t bound_ns;
    int partition_count;
    int *partitions[PARTITIONS_MAX]; // [stages + 1] each
    bal_joint_place scratch;
    bal_joint_place kept[WALKS_MAX]; // of different partitions, the best first
    int kept_count;
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
    bool may_fit;   // no placement's bound has proven that none of its partitions fits
    int best_shape; // whose first kept place is the best; -1: none yet
} search;

static int64_t best_ns(const search *state)
{
    return state->best_shape < 0 ? INT64_MAX : state->shapes[state->best_shape].kept[0].makespan_ns;
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

/// Adds a partition to those of a shape, unless it is known, leaves a stage empty or does not fit.
static void add_partition(search *state, shape_state *shape, const int *first_layer)
{
    const int stages = shape->ground.stage_count;
    const size_t bytes = ((size_t)stages + 1) * sizeof *first_layer;
    if (shape->partition_count == PARTITIONS_MAX) return;
    for (int stage = 0; stage < stages; stage++) {
        if (first_layer[stage] >= first_layer[stage + 1]) return;
    }
    for (int known = 0; known < shape->partition_count; known++) {
        if (memcmp(shape->partitions[known], first_layer, bytes) == 0) return;
    }
    if (bal_joint_partition_bound(&state->layers, shape->ground.shape, first_layer) == INT64_MAX) {
        return;
    }
    int *copy = arena_array(state->memory, (size_t)stages + 1, sizeof *copy);
    memcpy(copy, first_layer, bytes);
    shape->partitions[shape->partition_count++] = copy;
}

/// The partitions that balance the stages, each counting for itself, exactly and nearly. Where
/// ranks hold two chunks, what the problem says of ranks does not say it of stages and is left out.
static status add_balanced(search *state, shape_state *shape, int *first, error_message *err)
{
    bal_problem problem = *state->question->problem;
    problem.weight = BAL_WEIGHT_TIME;
    problem.objective = BAL_OBJECTIVE_BOTTLENECK;
    problem.stage_count = shape->ground.stage_count;
    problem.transfer_ns = NULL;
    if (shape->ground.shape.chunk_count > 1) {
        problem.stage_memory_bytes = NULL;
        problem.stage_time_factor_ppb = NULL;
        problem.stage_fixed_ns = NULL;
    }
    bal_chain chain;
    int64_t bottleneck = 0;
    TRY(bal_chain_of(&problem, state->memory, &chain, err));
    const status found = bal_partition_bottleneck(&chain, state->memory, first, &bottleneck, NULL);
    if (found == STATUS_INFEASIBLE) return STATUS_OK;
    if (found != STATUS_OK) return found;
    add_partition(state, shape, first);
    int64_t bound = 0;
    if (bal_partition_1f1b(&chain, problem.microbatch_count, state->memory, first, &bound, NULL) ==
        STATUS_OK) {
        add_partition(state, shape, first);
    }
    for (int slack = 0; slack <= 32; slack += 8) {
        const int64_t load = bottleneck + bottleneck / 256 * slack;
        TRY(bal_partition_latest(&chain, load, NULL, first, err));
        add_partition(state, shape, first);
        TRY(bal_partition_earliest(&chain, load, state->memory, first, err));
        add_partition(state, shape, first);
    }
    return STATUS_OK;
}

/// The partitions into two chunks that the bound favours, by how the layers share out between the
/// first chunks and the second ones: alike, or most of them in the second.
static void add_near(search *state, shape_state *shape, int *first)
{
    const int mean = state->layers.layer_count / shape->ground.stage_count;
    const int least[][2] = {{mean, mean}, {1, mean}, {1, 1}, {mean, 1}, {(mean + 1) / 2, mean}};
    for (size_t index = 0; index < sizeof least / sizeof least[0]; index++) {
        const status found =
            bal_joint_near_partition(&state->layers, shape->ground.shape, least[index][0],
                                     least[index][1], state->memory, first, NULL);
        if (found != STATUS_OK) continue;
        rng random = rng_init(state->question->seed, REFINE_PURPOSE + index);
        bal_joint_refine(&state->layers, shape->ground.shape, shape->bound_ns, REFINE_STEPS,
                         &random, state->memory, first);
        add_partition(state, shape, first);
    }
}

/// The partitions to begin with: that of the smallest bound first.
static status add_partitions(search *state, shape_state *shape, const int *of_bound,
                             error_message *err)
{
    const bal_problem *problem = state->question->problem;
    const int stages = shape->ground.stage_count;
    int *first = arena_array(state->memory, (size_t)stages + 1, sizeof *first);
    if (shape->ground.shape.chunk_count == 1) {
        add_partition(state, shape, of_bound);
    } else {
        add_near(state, shape, first);
    }
    const bool has_current =
        problem->current_first_layer != NULL && shape->ground.shape.chunk_count == 1 &&
        (problem->current_stage_count == 0 || problem->current_stage_count == stages);
    if (has_current) add_partition(state, shape, problem->current_first_layer);
    TRY(add_balanced(state, shape, first, err));
    for (int stage = 0; stage <= stages; stage++) {
        first[stage] = (int)((int64_t)stage * state->layers.layer_count / stages);
    }
    add_partition(state, shape, first);
    return STATUS_OK;
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
static status add_shape(search *state, bal_joint_shape shape, error_message *err)
{
    if (family_of(&state->layers, shape) == NULL) return STATUS_OK;
    const int wanted = state->question->chunk_count;
    if (wanted != 0 && wanted != shape.chunk_count) return STATUS_OK;
    shape_state *made = &state->shapes[state->shape_count];
    const size_t stages = (size_t)state->layers.rank_count * (size_t)shape.chunk_count;
    int *of_bound = arena_array(state->memory, stages + 1, sizeof *of_bound);
    const status bounded =
        bal_joint_bound(&state->layers, shape, state->memory, of_bound, &made->bound_ns, err);
    if (bounded == STATUS_INFEASIBLE) return STATUS_OK;
    if (bounded != STATUS_OK) return bounded;
    if (made->bound_ns < state->bound_ns) state->bound_ns = made->bound_ns;
    bal_joint_ground_init(&state->layers, shape, state->memory, &made->ground);
    bal_joint_place_init(&made->ground, state->memory, &made->scratch);
    for (int index = 0; index < WALKS_MAX; index++) {
        bal_joint_place_init(&made->ground, state->memory, &made->kept[index]);
    }
    TRY(add_partitions(state, made, of_bound, err));
    state->may_fit = true;
    if (made->partition_count > 0) state->shape_count++;
    return STATUS_OK;
}

/// Says that no partition fits, or none of two chunks was found.
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

/// Keeps a place: the best order of each of the best partitions of a shape.
static void keep(search *state, int shape, const bal_joint_place *place)
{
    shape_state *own = &state->shapes[shape];
    const size_t bytes = ((size_t)own->ground.stage_count + 1) * sizeof *place->first_layer;
    bal_joint_place *const kept = own->kept;
    const bool is_best = place->makespan_ns < best_ns(state);
    int at = 0;
    while (at < own->kept_count && memcmp(kept[at].first_layer, place->first_layer, bytes) != 0) {
        at++;
    }
    if (at == WALKS_MAX) at--; // the worst
    if (at < own->kept_count && kept[at].makespan_ns <= place->makespan_ns) return;
    if (at == own->kept_count) own->kept_count++;
    bal_joint_place_copy(&own->ground, place, &kept[at]);
    for (; at > 0 && kept[at - 1].makespan_ns > kept[at].makespan_ns; at--) {
        const bal_joint_place better = kept[at];
        kept[at] = kept[at - 1];
        kept[at - 1] = better;
    }
    if (is_best) state->best_shape = shape;
}

/// Plays the lines of the shape's scratch, for its partition on the board.
static void consider(search *state, int shape, const char *source)
{
    shape_state *own = &state->shapes[shape];
    bal_joint_place *place = &own->scratch;
    if (!spend(state, 1)) return;
    place->makespan_ns = bal_joint_play(&own->ground.board, place->lines, INT64_MAX);
    place->source = source;
    if (place->makespan_ns < INT64_MAX) keep(state, shape, place);
}

/// One microbatch after the other on every rank: the order that needs the least memory.
static void consider_serial(search *state, int shape)
{
    shape_state *own = &state->shapes[shape];
    const bal_joint_board *board = &own->ground.board;
    bal_joint_code *next = own->scratch.lines;
    const int inner = board->shape.chunk_count - 1;
    for (int rank = 0; rank < board->rank_count; rank++) {
        for (int microbatch = 0; microbatch < board->microbatch_count; microbatch++) {
            for (int chunk = 0; chunk <= inner; chunk++) {
                *next++ = bal_joint_code_of(chunk, OP_FORWARD);
            }
            for (int chunk = inner; chunk >= 0; chunk--) {
                *next++ = bal_joint_code_of(chunk, OP_BACKWARD_INPUT);
                if (board->has_split) *next++ = bal_joint_code_of(chunk, OP_BACKWARD_WEIGHT);
            }
        }
    }
    consider(state, shape, "dispatch");
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

/// Plays what a rule makes of the partition on the board.
static void consider_rule(search *state, int shape, int rule)
{
    shape_state *own = &state->shapes[shape];
    if (!spend(state, BAL_JOINT_DISPATCH_PLAYS - 1)) return;
    if (!bal_joint_dispatch(&own->ground.board, &rules[rule], own->scratch.lines)) return;
    consider(state, shape, "dispatch");
}

static void consider_dispatched(search *state, int shape)
{
    const bool is_double = state->shapes[shape].ground.shape.chunk_count == 2;
    const int count = is_double ? RULE_COUNT : RULES_OF_ONE_CHUNK;
    for (int rule = 0; rule < count && !is_over(state); rule++) {
        consider_rule(state, shape, rule);
    }
}

/// Plays what a family makes of the partition on the board; where its backwards are full and there
/// is a split, with B and W apart, which later steps can move.
static void consider_family(search *state, int shape, const char *family)
{
    shape_state *own = &state->shapes[shape];
    bal_joint_ground *ground = &own->ground;
    int64_t placed = 0;
    const bal_schedule_request request = {.name = family,
                                          .rank_count = state->layers.rank_count,
                                          .microbatch_count = state->layers.microbatch_count,
                                          .chunk_count = ground->shape.chunk_count,
                                          .costs = &ground->costs,
                                          .memory_limit = ground->board.room_bytes,
                                          .placed_op_count = &placed};
    bal_schedule schedule;
    bool fused = false;
    arena_reset(state->scratch);
    const status built = bal_schedule_build(&request, state->scratch, &schedule, NULL);
    if (!spend(state, placed / ground->op_count)) return;
    if (built != STATUS_OK) return; // it has no order for these counts or this memory
    if (!bal_joint_lines_of(&ground->board, &schedule, own->scratch.lines, &fused)) return;
    if (!bal_joint_lines_fit(&own->ground.board, own->scratch.lines)) return;
    consider(state, shape, fused ? "local search" : family);
}

static void consider_partition(search *state, int shape, int partition)
{
    shape_state *own = &state->shapes[shape];
    const bal_joint_shape placed = own->ground.shape;
    const int *first_layer = own->partitions[partition];
    int family_count = 0;
    const bal_schedule_family *families = bal_schedule_families(&family_count);
    memcpy(own->scratch.first_layer, first_layer,
           ((size_t)own->ground.stage_count + 1) * sizeof *first_layer);
    bal_joint_ground_set(&own->ground, first_layer);
    if (partition == 0 && !is_over(state)) consider_serial(state, shape);
    for (int family = 0; family < family_count && !is_over(state); family++) {
        if (!suits(&families[family], placed)) continue;
        if (families[family].is_searched && partition >= SEARCHED_MAX) continue;
        if (strcmp(families[family].name, "v-adaptive") == 0) continue; // as long as all the rest
        consider_family(state, shape, families[family].name);
    }
    consider_dispatched(state, shape);
}

/// All partitions of all shapes, in turn, so that a small budget sees every shape.
static void consider_all(search *state)
{
    for (int partition = 0; partition < PARTITIONS_MAX; partition++) {
        for (int shape = 0; shape < state->shape_count && !is_over(state); shape++) {
            if (partition >= state->shapes[shape].partition_count) continue;
            consider_partition(state, shape, partition);
        }
    }
}

/// A walk with where it walks.
typedef struct walker {
    int shape;
    bal_joint_walk walk;
} walker;

/// Walks one of them on, as far as the budget goes.
///
/// @param step_count a multiple of RUN_STEPS
static void walk_on(search *state, walker *chosen, int64_t step_count)
{
    for (int64_t step = 0; step < step_count && !is_over(state); step += RUN_STEPS) {
        const int64_t left = state->question->play_budget - state->play_count;
        spend(state, bal_joint_walk_on(&state->shapes[chosen->shape].ground, &chosen->walk,
                                       left < RUN_STEPS ? left : RUN_STEPS, state->bound_ns));
        keep(state, chosen->shape, &chosen->walk.best);
    }
}

/// Sorts by the makespan reached; equal ones stay in their order.
static void sort_walkers(walker **walkers, int count)
{
    for (int end = 1; end < count; end++) {
        walker *const moved = walkers[end];
        int index = end;
        for (;
             index > 0 && moved->walk.best.makespan_ns < walkers[index - 1]->walk.best.makespan_ns;
             index--) {
            walkers[index] = walkers[index - 1];
        }
        walkers[index] = moved;
    }
}

/// Begins at the best places of every shape in turn.
///
/// @return how many walks there are
static int begin_walks(search *state, walker **walkers)
{
    int count = 0;
    for (int place = 0; place < WALKS_MAX; place++) {
        for (int shape = 0; shape < state->shape_count && count < WALKS_MAX; shape++) {
            const shape_state *own = &state->shapes[shape];
            if (place >= own->kept_count) continue;
            walker *made = arena_array(state->memory, 1, sizeof *made);
            made->shape = shape;
            bal_joint_walk_begin(&own->ground, &own->kept[place], state->question->seed,
                                 (uint64_t)count, state->memory, &made->walk);
            walkers[count++] = made;
        }
    }
    return count;
}

/// Rounds of walks, twice as long each time for half as many, and then the best two, begun anew
/// from their best places wherever a run has not helped.
static void walk_all(search *state)
{
    walker *walkers[WALKS_MAX];
    int count = begin_walks(state, walkers);
    uint64_t purpose = WALKS_MAX;
    for (int64_t steps = RUN_STEPS; !is_over(state);
         steps = steps < LAST_RUN_STEPS ? 2 * steps : steps) {
        for (int index = 0; index < count && !is_over(state); index++) {
            walk_on(state, walkers[index], steps);
        }
        sort_walkers(walkers, count);
        count = count > 2 ? (count + 1) / 2 : count;
        for (int index = 0; index < count && steps == LAST_RUN_STEPS; index++) {
            bal_joint_walk *walk = &walkers[index]->walk;
            if (walk->here.makespan_ns == walk->best.makespan_ns) continue;
            bal_joint_place_copy(&state->shapes[walkers[index]->shape].ground, &walk->best,
                                 &walk->here);
            walk->random = rng_init(state->question->seed, purpose++);
        }
    }
}

static void fill_peaks(const search *state, bal_joint_answer *answer)
{
    const bal_joint_ground *ground = &state->shapes[state->best_shape].ground;
    const bal_joint_code *lines = state->shapes[state->best_shape].kept[0].lines;
    int64_t *peak = arena_array(state->memory, (size_t)state->layers.rank_count, sizeof *peak);
    for (int rank = 0; rank < state->layers.rank_count; rank++) {
        const bal_joint_code *line = lines + (size_t)rank * (size_t)ground->board.line_op_count;
        peak[rank] =
            bal_joint_line_peak_bytes(&ground->board, rank, line) +
            bal_joint_state_bytes(&state->layers, ground->shape, answer->first_layer, rank);
    }
    answer->peak_bytes = peak;
}

static void fill_answer(search *state, bal_joint_answer *answer)
{
    bal_joint_ground *ground = &state->shapes[state->best_shape].ground;
    const bal_joint_place *best = &state->shapes[state->best_shape].kept[0];
    const char *source = best->source;
    bal_joint_answer made = {.shape = ground->shape,
                             .first_layer = best->first_layer,
                             .source = source,
                             .makespan_ns = best->makespan_ns,
                             .lower_bound_ns = state->bound_ns,
                             .partition_bound_ns = bal_joint_partition_bound(
                                 &state->layers, ground->shape, best->first_layer),
                             .optimal = best->makespan_ns == state->bound_ns,
                             .play_count = state->play_count};
    assert(made.makespan_ns >= made.lower_bound_ns); // the bounds are proven
    assert(made.makespan_ns >= made.partition_bound_ns);
    bal_joint_ground_set(ground, best->first_layer);
    made.costs = ground->costs;
    fill_peaks(state, &made);
    const char *name = bal_schedule_family_find(source) != NULL
                           ? source
                           : family_of(&state->layers, ground->shape)->name;
    bal_joint_lines_schedule(&ground->board, best->lines, name, state->memory, &made.order);
    *answer = made;
}

static status search_all(search *state, bal_joint_answer *answer, error_message *err)
{
    static const bal_joint_shape shapes[SHAPES_MAX] = {
        {.chunk_count = 1, .placement = BAL_PLACEMENT_LOOP},
        {.chunk_count = 2, .placement = BAL_PLACEMENT_V},
        {.chunk_count = 2, .placement = BAL_PLACEMENT_LOOP}};
    for (int shape = 0; shape < SHAPES_MAX; shape++) {
        TRY(add_shape(state, shapes[shape], err));
    }
    if (state->shape_count == 0) return explain_infeasible(state, err);
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
    state->best_shape = -1;
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
