/// v-adaptive: the best order of all V building blocks within a memory limit.
///
/// A block is the slots of one microbatch on every rank, repeated every BLOCK_PERIOD slots. It is
/// given by where the four ops of the first rank stand in the period, and by how many slots later
/// than on the rank before the ops that go down stand (those that go up stand one earlier), a
/// number that may become smaller once. Every block in which no two ops meet is tried with both
/// ends, with the real costs.
///
/// Source: Qi et al., Pipeline parallelism with controllable memory, NeurIPS 2024, section 3 and
/// appendix A: the blocks and their uniform offsets. Its authors' search compares blocks at one
/// cost for all stages and one limit for all ranks.
#include "balance/schedule/order_search.h"
#include "balance/schedule/schedule_block_grid.h"
#include "balance/schedule/schedule_families.h"

#include <inttypes.h>
#include <string.h>

enum {
    CHUNKS = 2,
    FIRST_OPS = 4,
    STEP_MAX = BLOCK_PERIOD - 1,
};

_Static_assert((int)BLOCK_KIND_COUNT == (int)BAL_CODES_MAX, "kinds are the codes of a search");

/// What tells a block from others.
typedef struct block_shape {
    int first[FIRST_OPS]; // where the ops of rank 0 stand in the period
    int step;             // by which the ops that go down stand later, on ranks 1 to step_count
    int step_count;
    int last_step; // and on the ranks after them, at most step
} block_shape;

typedef struct block_search {
    bal_order_search find;
    block_grid grid;
    building_block *block; // [rank_count]
    uint8_t *begun;        // [rank_count * grid.width] an order before its end
    int64_t *chunks_max;   // [rank_count] no order that fits the limits holds more
    int64_t excess;        // of the order that came nearest to fitting: how far it is above a limit
    int64_t excess_need;   // what the rank needs then
    int excess_rank;
} block_search;

static int in_period(int slot)
{
    return (slot % BLOCK_PERIOD + BLOCK_PERIOD) % BLOCK_PERIOD;
}

/// The places in the period of a rank's ops. False where two meet.
static bool places_of(const block_shape *shape, int rank, int place[FIRST_OPS])
{
    const int early = rank < shape->step_count ? rank : shape->step_count;
    const int down = early * shape->step + (rank - early) * shape->last_step;
    bool is_taken[BLOCK_PERIOD] = {false};
    for (int kind = 0; kind < FIRST_OPS; kind++) {
        const bool is_down = kind == BLOCK_F0 || kind == BLOCK_B1;
        place[kind] = in_period(shape->first[kind] + (is_down ? down : -rank));
        if (is_taken[place[kind]]) return false;
        is_taken[place[kind]] = true;
    }
    return true;
}

/// Gives every op the first slot of its place after the op that it waits for.
static bool make_block(const block_shape *shape, int rank_count, building_block *block)
{
    for (int rank = 0; rank < rank_count; rank++) {
        if (!places_of(shape, rank, block[rank].slot)) return false;
    }
    int slot = 0;
    for (int kind = 0; kind < FIRST_OPS; kind++) {
        const bool is_down = kind == BLOCK_F0 || kind == BLOCK_B1;
        for (int step = 0; step < rank_count; step++) {
            int *at = &block[is_down ? step : rank_count - 1 - step].slot[kind];
            slot += in_period(*at - slot);
            *at = slot++;
        }
    }
    return true;
}

/// The chunks that a rank holds at least, once its block repeats: each from F until its B.
static int chunks_held(const building_block *block)
{
    int most = 0;
    for (int slot = 0; slot < BLOCK_PERIOD; slot++) {
        int held = 0;
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            const int from = block->slot[chunk == 0 ? BLOCK_F0 : BLOCK_F1];
            const int until = block->slot[chunk == 0 ? BLOCK_B0 : BLOCK_B1];
            held += (until - from - in_period(slot - from) + BLOCK_PERIOD - 1) / BLOCK_PERIOD;
        }
        if (held > most) most = held;
    }
    return most;
}

/// Whether a block's steady state, if it has one, can be within the limits.
static bool may_fit(const block_search *search)
{
    const block_grid *grid = &search->grid;
    if (grid->microbatch_count < 2 * grid->rank_count) return true;
    for (int rank = 0; rank < grid->rank_count; rank++) {
        if (chunks_held(&search->block[rank]) > search->chunks_max[rank]) return false;
    }
    return true;
}

/// The most memory that a rank takes under the order in codes.
static int64_t peak_of(const bal_order_search *find, int rank)
{
    const int ops = BLOCK_KIND_COUNT * find->microbatch_count;
    const uint8_t *codes = find->codes + (size_t)rank * (size_t)ops;
    int64_t held = 0;
    int64_t peak = 0;
    for (int op = 0; op < ops; op++) {
        held += find->ranks[rank].memory[codes[op]];
        if (held > peak) peak = held;
    }
    return peak;
}

/// Offers the order in the grid, or notes by how much it exceeds a limit.
static void offer(block_search *search)
{
    bal_order_search *find = &search->find;
    bal_block_grid_kinds(&search->grid, find->codes);
    int64_t excess = 0;
    int64_t need = 0;
    int excess_rank = 0;
    for (int rank = 0; rank < find->rank_count; rank++) {
        const int64_t peak = peak_of(find, rank);
        if (peak - find->ranks[rank].memory_limit <= excess) continue;
        excess = peak - find->ranks[rank].memory_limit;
        need = peak;
        excess_rank = rank;
    }
    if (excess == 0) {
        bal_order_search_play(find);
    } else if (excess < search->excess) {
        search->excess = excess;
        search->excess_need = need;
        search->excess_rank = excess_rank;
    }
}

/// Tries a block with its three ends.
static void try_block(block_search *search)
{
    block_grid *grid = &search->grid;
    bal_block_grid_begin(grid, search->block);
    const size_t cells = (size_t)grid->rank_count * (size_t)grid->width;
    const int used = grid->used;
    memcpy(search->begun, grid->cell, cells);
    bal_block_grid_end_pulled(grid);
    offer(search);
    memcpy(grid->cell, search->begun, cells);
    grid->used = used;
    bal_block_grid_restore(grid);
    if (!bal_block_grid_end_alternating(grid)) return;
    offer(search);
    if (bal_block_grid_fill(grid)) offer(search);
}

/// Tries the blocks of one first rank.
static void try_steps(block_search *search, block_shape *shape)
{
    const int ranks = search->grid.rank_count;
    for (shape->step = 1; shape->step <= STEP_MAX; shape->step++) {
        for (shape->last_step = 1; shape->last_step <= shape->step; shape->last_step++) {
            const bool is_uniform = shape->last_step == shape->step;
            const int last = is_uniform ? 1 : ranks - 2;
            for (shape->step_count = 1; shape->step_count <= last; shape->step_count++) {
                if (make_block(shape, ranks, search->block) && may_fit(search)) try_block(search);
            }
        }
    }
}

static void try_all(block_search *search)
{
    for (int first = 0; first < STEP_MAX * STEP_MAX * STEP_MAX; first++) {
        block_shape shape = {.first = {0, 1 + first / (STEP_MAX * STEP_MAX),
                                       1 + first / STEP_MAX % STEP_MAX, 1 + first % STEP_MAX}};
        try_steps(search, &shape);
    }
}

/// How many chunks a rank can hold, at most two a rank: blocks that hold more fill no bubble.
static int64_t chunks_max(const bal_order_search *find, int rank)
{
    const int64_t *memory = find->ranks[rank].memory;
    int64_t least = INT64_MAX;
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const int64_t forward = memory[chunk == 0 ? BLOCK_F0 : BLOCK_F1];
        const int64_t input = memory[chunk == 0 ? BLOCK_B0 : BLOCK_B1];
        const int64_t held = input < 0 ? forward + input : forward;
        if (held < least) least = held;
    }
    const int64_t most = CHUNKS * (int64_t)find->rank_count;
    if (least <= 0) return most;
    const int64_t fit = find->ranks[rank].memory_limit / least;
    return fit < most ? fit : most;
}

static void carve(block_search *search, arena *memory)
{
    const int ranks = search->find.rank_count;
    // Every op stands at most a period after the one that it waits for.
    const int last_slot = FIRST_OPS * BLOCK_PERIOD * ranks;
    bal_block_grid_init(&search->grid, ranks, search->find.microbatch_count, last_slot, memory);
    search->block = arena_array(memory, (size_t)ranks, sizeof *search->block);
    search->begun = arena_array(memory, (size_t)ranks * (size_t)search->grid.width, 1);
    search->chunks_max = arena_array(memory, (size_t)ranks, sizeof *search->chunks_max);
    for (int rank = 0; rank < ranks; rank++) {
        search->chunks_max[rank] = chunks_max(&search->find, rank);
    }
}

/// Names the rank that keeps the order nearest to the limits from fitting.
static status infeasible(block_search *search, error_message *err)
{
    const int ranks = search->find.rank_count;
    for (int rank = 0; rank < ranks; rank++) {
        search->chunks_max[rank] = CHUNKS * (int64_t)ranks;
    }
    try_all(search);
    return error_set(err, STATUS_INFEASIBLE,
                     "rank %d needs memory %" PRId64 " under the order of v-adaptive that is "
                     "nearest to fitting; its limit is %" PRId64,
                     search->excess_rank, search->excess_need,
                     search->find.ranks[search->excess_rank].memory_limit);
}

status bal_schedule_search_v_adaptive(const bal_schedule_request *request, arena *memory,
                                      bal_op *ops, error_message *err)
{
    block_search search = {.excess = INT64_MAX};
    TRY(bal_order_search_begin(request, CHUNKS, CHUNKS * (int64_t)request->rank_count, memory,
                               &search.find, err));
    carve(&search, memory);
    try_all(&search);
    if (search.find.best_span_ns == INT64_MAX) return infeasible(&search, err);
    bal_order_search_write(&search.find, ops);
    return STATUS_OK;
}
