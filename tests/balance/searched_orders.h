/// What tests of searched schedules share: random costs, a search, and the shortest order of a
/// small case, found by going through all of them.
#pragma once

#include "base/rng.h"
#include "tests/balance/reference_player.h"
#include "tests/test_memory.h"

static inline status search(const char *name, int ranks, int microbatches,
                            const bal_stage_costs *costs, const int64_t *memory_limit,
                            bal_schedule *schedule, error_message *err)
{
    const bal_schedule_request request = {.name = name,
                                          .rank_count = ranks,
                                          .microbatch_count = microbatches,
                                          .costs = costs,
                                          .memory_limit = memory_limit};
    return bal_schedule_build(&request, memory, schedule, err);
}

static inline int64_t *random_row(rng *generator, int count, int64_t low, int64_t high)
{
    int64_t *row = arena_array(memory, (size_t)count, sizeof *row);
    for (int index = 0; index < count; index++) {
        row[index] = rng_between(generator, low, high);
    }
    return row;
}

/// @param columns 1, or the microbatches where times vary by them
static inline bal_stage_costs random_costs(rng *generator, int stages, int columns)
{
    const int64_t high = rng_below(generator, 2) == 0 ? 10 : 3000;
    int64_t *forward = random_row(generator, stages, 1, 5);
    int64_t *weight = random_row(generator, stages, -3, 0);
    int64_t *input = arena_array(memory, (size_t)stages, sizeof *input);
    for (int stage = 0; stage < stages; stage++) {
        input[stage] = -forward[stage] - weight[stage];
    }
    return (bal_stage_costs){
        .stage_count = stages,
        .microbatch_count = columns,
        .forward_ns = random_row(generator, stages * columns, 0, high),
        .backward_input_ns = random_row(generator, stages * columns, 0, high),
        .backward_weight_ns = random_row(generator, stages * columns, 0, high),
        .send_forward_ns = random_row(generator, stages, 0, high / 4),
        .send_backward_ns = random_row(generator, stages, 0, high / 4),
        .memory_forward = forward,
        .memory_backward_input = input,
        .memory_backward_weight = weight,
    };
}

static inline bool fits(const bal_schedule *schedule, const bal_stage_costs *costs,
                        const int64_t *memory_limit)
{
    int64_t peak[32];
    bal_memory_peak(schedule, costs, peak);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (peak[rank] > memory_limit[rank]) return false;
    }
    return true;
}

enum { SMALL_RANKS = 3, SMALL_MICROBATCHES = 4, SMALL_CODES = 6 };

/// A microbatch's ops on a rank are numbered in the order of the gradient: F, B, W; or, with two
/// chunks in V, F0, F1, B1, B0, W1, W0. F and B are sweeps, down the ranks and up in turn.
///
/// Every order of all ranks, op by op in the order of their begins (and of ranks where those are
/// equal), so that each comes once; cut off where it can no longer be shorter than the best.
typedef struct small_search {
    int ranks;
    int chunks;
    int microbatches;
    const int64_t (*op_ns)[SMALL_CODES]; // [ranks]
    const int64_t (*memory)[SMALL_CODES];
    const int64_t *limit; // [ranks]
    int64_t send_ns;
    int done[SMALL_RANKS][SMALL_CODES];
    int64_t end[SMALL_RANKS][4][SMALL_MICROBATCHES];
    int64_t free_ns[SMALL_RANKS];
    int64_t begin_ns[SMALL_RANKS];
    int64_t left_ns[SMALL_RANKS]; // work to come
    int left_count[SMALL_RANKS];
    int64_t held[SMALL_RANKS];
    int64_t best;
} small_search;

/// When the next op of a code could begin on a rank; -1: not yet.
static inline int64_t small_begin(const small_search *at, int rank, int code)
{
    const int microbatch = at->done[rank][code];
    if (microbatch == at->microbatches) return -1;
    if (at->held[rank] + at->memory[rank][code] > at->limit[rank]) return -1;
    int64_t arrival = 0;
    if (code >= 2 * at->chunks) {
        if (at->done[rank][code - at->chunks] <= microbatch) return -1;
    } else if (code > 0 || rank > 0) {
        const bool is_down = code % 2 == 0;
        const bool turns = rank == (is_down ? 0 : at->ranks - 1);
        const int from = turns ? rank : is_down ? rank - 1 : rank + 1;
        const int sweep = turns ? code - 1 : code;
        if (at->done[from][sweep] <= microbatch) return -1;
        arrival = at->end[from][sweep][microbatch] + (turns ? 0 : at->send_ns);
    }
    return arrival > at->free_ns[rank] ? arrival : at->free_ns[rank];
}

/// Depth is the number of ops, at most 54.
static inline void small_go_on(small_search *at, int64_t last_begin, int last_rank)
{
    bool is_done = true;
    int64_t span = 0;
    for (int rank = 0; rank < at->ranks; rank++) {
        const bool has_begun = at->done[rank][0] > 0;
        const int64_t from = has_begun ? at->free_ns[rank] - at->begin_ns[rank] : 0;
        if (from + at->left_ns[rank] > span) span = from + at->left_ns[rank];
        is_done = is_done && at->left_count[rank] == 0;
    }
    if (span >= at->best) return;
    if (is_done) at->best = span;
    for (int rank = 0; rank < at->ranks; rank++) {
        for (int code = 0; code < 3 * at->chunks; code++) {
            const int64_t begin = small_begin(at, rank, code);
            if (begin < last_begin || (begin == last_begin && rank < last_rank)) continue;
            const int64_t free_ns = at->free_ns[rank];
            const int64_t begin_ns = at->begin_ns[rank];
            if (at->done[rank][0] == 0) at->begin_ns[rank] = begin;
            at->free_ns[rank] = begin + at->op_ns[rank][code];
            if (code < 2 * at->chunks)
                at->end[rank][code][at->done[rank][code]] = at->free_ns[rank];
            at->done[rank][code]++;
            at->left_ns[rank] -= at->op_ns[rank][code];
            at->left_count[rank]--;
            at->held[rank] += at->memory[rank][code];
            small_go_on(at, begin, rank);
            at->held[rank] -= at->memory[rank][code];
            at->left_ns[rank] += at->op_ns[rank][code];
            at->left_count[rank]++;
            at->done[rank][code]--;
            at->free_ns[rank] = free_ns;
            at->begin_ns[rank] = begin_ns;
        }
    }
}

/// The smallest span of all orders below a limit; the limit where none is.
static inline int64_t smallest_span(int ranks, int microbatches, const bal_stage_costs *costs,
                                    const int64_t *limit, int64_t below)
{
    int64_t op_ns[SMALL_RANKS][SMALL_CODES];
    int64_t change[SMALL_RANKS][SMALL_CODES];
    const int chunks = costs->stage_count / ranks;
    small_search at = {.ranks = ranks,
                       .chunks = chunks,
                       .microbatches = microbatches,
                       .op_ns = (const int64_t(*)[SMALL_CODES])op_ns,
                       .memory = (const int64_t(*)[SMALL_CODES])change,
                       .limit = limit,
                       .send_ns = costs->send_forward_ns[0],
                       .best = below};
    for (int rank = 0; rank < ranks; rank++) {
        const int stages[] = {rank, 2 * ranks - 1 - rank};
        const int64_t *const times[] = {costs->forward_ns, costs->backward_input_ns,
                                        costs->backward_weight_ns};
        const int64_t *const changes[] = {costs->memory_forward, costs->memory_backward_input,
                                          costs->memory_backward_weight};
        at.left_count[rank] = 3 * chunks * microbatches;
        for (int code = 0; code < 3 * chunks; code++) {
            const int kind = code / chunks;
            const int chunk = kind == 0 ? code : (kind + 1) * chunks - 1 - code;
            op_ns[rank][code] = times[kind][stages[chunk]];
            change[rank][code] = changes[kind][stages[chunk]];
            at.left_ns[rank] += microbatches * op_ns[rank][code];
        }
    }
    small_go_on(&at, 0, 0);
    return at.best;
}
