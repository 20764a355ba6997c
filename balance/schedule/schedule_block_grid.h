/// The orders of V-placed schedules while they are made, on a grid of unit slots: repeat a building
/// block, pull its ends together, squeeze. Only the schedule families see it.
///
/// Every op takes one slot here. The ops of a kind stand in the order of their microbatches on
/// every rank, so that a rank's row of kinds is its order.
///
/// Source of the method: Qi et al., Pipeline parallelism with controllable memory, NeurIPS 2024;
/// the rules of pull are those of its authors' code, whose orders these are.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// What stands in a cell. A microbatch runs through the first four in this order, F0 and B1 from
/// the first rank to the last, F1 and B0 back. While weights are joined, all W are BLOCK_W1.
typedef enum block_kind {
    BLOCK_F0,
    BLOCK_F1,
    BLOCK_B1,
    BLOCK_B0,
    BLOCK_W1,
    BLOCK_W0,
    BLOCK_KIND_COUNT,
    BLOCK_EMPTY = BLOCK_KIND_COUNT
} block_kind;

enum { BLOCK_PERIOD = 6 }; // slots in which a rank runs one op of each kind

/// The slots of one microbatch's F0, F1, B1, B0 on one rank; those of the next stand BLOCK_PERIOD
/// later.
typedef struct building_block {
    int slot[4];
} building_block;

typedef struct block_grid {
    int rank_count;
    int microbatch_count;
    bool is_whole; // B and W in one: a backward takes two slots, and W stands for the second
    int width;     // slots of a row
    int used;      // after them, all slots are empty
    uint8_t *cell; // [rank_count][width] block_kind
    int *slot;     // [rank_count][BLOCK_KIND_COUNT][microbatch_count] where the op stands; joined
                   // weights fill the rows of both
    int *held;     // [rank_count][width] scratch: activations held after the slot
    int *pending;  // [rank_count][width] scratch: W that could run after the slot
    int *next;     // [rank_count][BLOCK_KIND_COUNT] scratch: ops of the kind met so far
} block_grid;

/// The cells of a rank.
static inline uint8_t *bal_block_row(const block_grid *grid, int rank)
{
    return grid->cell + (size_t)rank * (size_t)grid->width;
}

/// The slots of the ops of a kind on a rank.
static inline int *bal_block_slots(const block_grid *grid, int rank, block_kind kind)
{
    const size_t row = (size_t)rank * BLOCK_KIND_COUNT + kind;
    return grid->slot + row * (size_t)grid->microbatch_count;
}

static inline void bal_block_place(block_grid *grid, int rank, block_kind kind, int index, int slot)
{
    assert(slot < grid->width);
    bal_block_row(grid, rank)[slot] = (uint8_t)kind;
    bal_block_slots(grid, rank, kind)[index] = slot;
}

/// Carves a grid that has room for every order of a block, whatever the block.
///
/// @param last_slot the largest slot of the block on any rank
void bal_block_grid_init(block_grid *grid, int rank_count, int microbatch_count, int last_slot,
                         arena *memory);

/// Fills the grid with microbatch_count blocks, one every BLOCK_PERIOD slots, without W.
///
/// @param block [rank_count] no two ops of a rank in the same slot of the period
void bal_block_grid_repeat(block_grid *grid, const building_block *block);

/// Moves every op to the first empty slot at which what it waits for is done, forwards only as far
/// as no rank holds more activations than the fullest did. Weights are in the grid.
void bal_block_grid_pull(block_grid *grid);

/// Makes the order of a block but for its end: repeats it; puts W into the empty slots; moves the
/// ops of the warm-up and the cool-down to earlier empty slots where what they wait for is done and
/// no rank then holds more activations than the fullest did; lets every op begin as soon as its
/// order allows. Its weights are joined.
///
/// Time O(cells) and, for each op that is moved, the distance.
void bal_block_grid_begin(block_grid *grid, const building_block *block);

/// The end of an order: moves the ops of the cool-down once more, with the W put anew, those of
/// chunk 1 first. Time as above.
void bal_block_grid_end_pulled(block_grid *grid);

/// Another end: after the last F of rank 0 the backwards of both chunks alternate, each as far
/// after its neighbour's as the way takes; W go where slots are left.
///
/// @return whether every W then has its B before it; otherwise the grid holds no order. Ranks may
///         still wait for each other.
bool bal_block_grid_end_alternating(block_grid *grid);

/// Lets every op of an order begin as soon as it may, and moves all ops to earlier empty slots
/// where no rank then holds more activations than the fullest did.
///
/// @return false, and the grid holds no order, where an op stands before one that it waits for
bool bal_block_grid_fill(block_grid *grid);

/// Writes the slots of all ops anew, from the cells.
void bal_block_grid_restore(block_grid *grid);

/// Writes the row of kinds of all ranks, rank after rank: BLOCK_KIND_COUNT * microbatch_count each.
void bal_block_grid_kinds(const block_grid *grid, uint8_t *kinds);

/// Writes the order of all ranks, rank after rank: 6 * microbatch_count ops each, or 4 where
/// backwards are whole.
void bal_block_grid_write(const block_grid *grid, bal_op *ops);
