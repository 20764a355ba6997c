/// Random orders and costs for the tests of the engines.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdbool.h>

/// What has been drawn of the ops of one stage and microbatch.
typedef enum drawn_state { DRAWN_NOTHING, DRAWN_F, DRAWN_B, DRAWN_ALL } drawn_state;

/// The op that may be drawn next for a stage and microbatch, or false: something must come before.
static inline bool random_next_op(const uint8_t *drawn, const bal_schedule *shape, int stage,
                                  int microbatch, bal_op_kind *kind)
{
    const int cell = stage * shape->microbatch_count + microbatch;
    const int before = bal_stage_before(shape->placement, shape->rank_count, stage);
    const int behind =
        bal_stage_behind(shape->placement, shape->rank_count, shape->chunk_count, stage);
    switch (drawn[cell]) {
    case DRAWN_NOTHING:
        *kind = OP_FORWARD;
        return before < 0 || drawn[cell - shape->microbatch_count] >= DRAWN_F;
    case DRAWN_F:
        *kind = shape->has_split ? OP_BACKWARD_INPUT : OP_BACKWARD;
        return behind < 0 || drawn[cell + shape->microbatch_count] >= DRAWN_B;
    case DRAWN_B:
        *kind = OP_BACKWARD_WEIGHT;
        return true;
    default:
        return false;
    }
}

/// Draws an order that can be played: ops are drawn one by one among those whose predecessors were
/// drawn, and every rank keeps the order in which its own were drawn.
static inline bal_schedule random_schedule(rng *generator, int rank_count, int chunk_count,
                                           int microbatch_count, bal_placement placement,
                                           bool has_split)
{
    const int stage_count = rank_count * chunk_count;
    const int kinds = has_split ? 3 : 2;
    const int per_rank = chunk_count * microbatch_count * kinds;
    const int cells = stage_count * microbatch_count;
    int *first_op = arena_array(memory, (size_t)rank_count + 1, sizeof *first_op);
    int *used = arena_array(memory, (size_t)rank_count, sizeof *used);
    bal_op *ops = arena_array(memory, (size_t)(rank_count * per_rank), sizeof *ops);
    uint8_t *drawn = arena_array(memory, (size_t)cells, sizeof *drawn);
    for (int rank = 0; rank <= rank_count; rank++) {
        first_op[rank] = rank * per_rank;
    }
    const bal_schedule shape = {.rank_count = rank_count,
                                .chunk_count = chunk_count,
                                .microbatch_count = microbatch_count,
                                .placement = placement,
                                .has_split = has_split};
    for (int left = rank_count * per_rank; left > 0;) {
        const int cell = (int)rng_below(generator, (uint64_t)cells);
        const int stage = cell / microbatch_count;
        const int microbatch = cell % microbatch_count;
        bal_op_kind kind;
        if (!random_next_op(drawn, &shape, stage, microbatch, &kind)) continue;
        int chunk = 0;
        const int rank = bal_rank_of_stage(placement, rank_count, chunk_count, stage, &chunk);
        ops[first_op[rank] + used[rank]++] =
            (bal_op){.kind = (uint8_t)kind, .chunk = (uint16_t)chunk, .microbatch = microbatch};
        drawn[cell] = kind == OP_FORWARD          ? DRAWN_F
                      : kind == OP_BACKWARD_INPUT ? DRAWN_B
                                                  : DRAWN_ALL;
        left--;
    }
    return (bal_schedule){.name = "random",
                          .rank_count = rank_count,
                          .chunk_count = chunk_count,
                          .microbatch_count = microbatch_count,
                          .placement = placement,
                          .has_split = has_split,
                          .first_op = first_op,
                          .ops = ops};
}

static inline int64_t *random_row(rng *generator, int count, int64_t high)
{
    int64_t *row = arena_array(memory, (size_t)count, sizeof *row);
    for (int index = 0; index < count; index++) {
        row[index] = rng_between(generator, 0, high);
    }
    return row;
}

/// Draws costs up to ns_max (small: many ties and zeros) and messages up to send_max.
static inline bal_stage_costs random_costs(rng *generator, int stage_count, int columns,
                                           int64_t ns_max, int64_t send_max)
{
    int64_t *held = random_row(generator, stage_count, 5);
    int64_t *from_b = random_row(generator, stage_count, 5);
    int64_t *to_b = random_row(generator, stage_count, 0);
    for (int stage = 0; stage < stage_count; stage++) {
        to_b[stage] = from_b[stage] - held[stage];
        from_b[stage] = -from_b[stage];
    }
    return (bal_stage_costs){
        .stage_count = stage_count,
        .microbatch_count = columns,
        .forward_ns = random_row(generator, stage_count * columns, ns_max),
        .backward_input_ns = random_row(generator, stage_count * columns, ns_max),
        .backward_weight_ns = random_row(generator, stage_count * columns, ns_max),
        .send_forward_ns = random_row(generator, stage_count, send_max),
        .send_backward_ns = random_row(generator, stage_count, send_max),
        .memory_forward = held,
        .memory_backward_input = to_b,
        .memory_backward_weight = from_b,
    };
}

/// Draws delays of up to delay_max for the messages of costs that have none.
static inline void random_delays(rng *generator, bal_stage_costs *costs, int64_t delay_max)
{
    costs->message_delay_ns =
        random_row(generator, 2 * costs->stage_count * costs->microbatch_count, delay_max);
}

/// Draws which neighbours of an order overlap. False: the ranks would wait in a ring for their
/// pairs.
static inline bool random_pairs(rng *generator, const bal_schedule *schedule)
{
    bal_op *ops = (bal_op *)(uintptr_t)schedule->ops;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op + 1 < schedule->first_op[rank + 1]; op++) {
            const bool has_weight =
                ops[op].kind == OP_BACKWARD_WEIGHT || ops[op + 1].kind == OP_BACKWARD_WEIGHT;
            const bool is_forward = ops[op].kind == OP_FORWARD;
            if (has_weight || is_forward == (ops[op + 1].kind == OP_FORWARD)) continue;
            if (ops[op].microbatch == ops[op + 1].microbatch) continue;
            if (rng_below(generator, 3) > 0) continue;
            ops[op].overlaps_next = 1;
            op++;
        }
    }
    return bal_schedule_check(schedule, NULL) == STATUS_OK;
}

/// One random problem of up to 5 ranks, 3 chunks and 8 microbatches.
typedef struct random_problem {
    bal_schedule schedule;
    bal_stage_costs costs;
} random_problem;

static inline random_problem random_problem_draw(uint64_t seed)
{
    static const int64_t scales[] = {0, 1, 10, 1000000};
    rng generator = rng_init(seed, 1);
    const int ranks = 1 + (int)rng_below(&generator, 5);
    static const bal_placement placements[] = {BAL_PLACEMENT_LOOP, BAL_PLACEMENT_LOOP,
                                               BAL_PLACEMENT_LOOP, BAL_PLACEMENT_V,
                                               BAL_PLACEMENT_BIDIRECTIONAL};
    const bal_placement placement = placements[rng_below(&generator, 5)];
    const int chunks = placement != BAL_PLACEMENT_LOOP ? 2 : 1 + (int)rng_below(&generator, 3);
    const int microbatches = 1 + (int)rng_below(&generator, 8);
    const bool has_split = rng_below(&generator, 3) > 0;
    const int columns = rng_below(&generator, 2) == 0 ? 1 : microbatches;
    const int64_t ns_max = scales[rng_below(&generator, 4)];
    const int64_t send_max = scales[rng_below(&generator, 4)];
    random_problem problem;
    problem.schedule =
        random_schedule(&generator, ranks, chunks, microbatches, placement, has_split);
    problem.costs = random_costs(&generator, ranks * chunks, columns, ns_max, send_max);
    return problem;
}
