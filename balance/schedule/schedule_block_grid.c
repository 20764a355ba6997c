#include "balance/schedule/schedule_block_grid.h"

#include "balance/schedule/schedule_families.h"

#include <assert.h>
#include <string.h>

void bal_block_grid_init(block_grid *grid, int rank_count, int microbatch_count, int last_slot,
                         arena *memory)
{
    // After the last block, all W at most: two of each microbatch.
    const int64_t width =
        (int64_t)last_slot + (BLOCK_PERIOD + 2) * (int64_t)microbatch_count + BLOCK_PERIOD;
    assert(width <= INT32_MAX);
    const size_t ranks = (size_t)rank_count;
    const size_t cells = ranks * (size_t)width;
    const size_t kinds = ranks * BLOCK_KIND_COUNT;
    *grid = (block_grid){
        .rank_count = rank_count,
        .microbatch_count = microbatch_count,
        .width = (int)width,
        .cell = arena_array(memory, cells, sizeof *grid->cell),
        .slot = arena_array(memory, kinds * (size_t)microbatch_count, sizeof *grid->slot),
        .held = arena_array(memory, cells, sizeof *grid->held),
        .pending = arena_array(memory, cells, sizeof *grid->pending),
        .next = arena_array(memory, kinds, sizeof *grid->next),
    };
}

void bal_block_grid_repeat(block_grid *grid, const building_block *block)
{
    memset(grid->cell, BLOCK_EMPTY, (size_t)grid->rank_count * (size_t)grid->width);
    grid->used = 0;
    for (int rank = 0; rank < grid->rank_count; rank++) {
        for (int kind = 0; kind <= BLOCK_B0; kind++) {
            for (int microbatch = 0; microbatch < grid->microbatch_count; microbatch++) {
                const int slot = block[rank].slot[kind] + BLOCK_PERIOD * microbatch;
                bal_block_place(grid, rank, (block_kind)kind, microbatch, slot);
                if (slot >= grid->used) grid->used = slot + 1;
            }
        }
    }
}

static void drop_weights(block_grid *grid)
{
    for (int rank = 0; rank < grid->rank_count; rank++) {
        uint8_t *row = bal_block_row(grid, rank);
        for (int slot = 0; slot < grid->used; slot++) {
            if (row[slot] >= BLOCK_W1) row[slot] = BLOCK_EMPTY;
        }
    }
}

/// Fills the empty slots of a rank with W while backwards wait for theirs.
static int put_weights(block_grid *grid, int rank, bool is_split)
{
    const uint8_t *row = bal_block_row(grid, rank);
    int waiting[2] = {0}; // by kind - BLOCK_W1
    int done[2] = {0};
    int left = BLOCK_W1 * grid->microbatch_count; // ops that are not W
    int slot = 0;
    for (; left > 0 || waiting[0] + waiting[1] > 0; slot++) {
        const int kind = row[slot];
        left -= kind != BLOCK_EMPTY;
        if (kind == BLOCK_B1 || kind == BLOCK_B0) waiting[is_split ? kind - BLOCK_B1 : 0]++;
        if (kind != BLOCK_EMPTY || waiting[0] + waiting[1] == 0) continue;
        const int weight = waiting[0] > 0 ? 0 : 1;
        waiting[weight]--;
        bal_block_place(grid, rank, (block_kind)(BLOCK_W1 + weight), done[weight]++, slot);
    }
    return slot;
}

static void put_all_weights(block_grid *grid, bool is_split)
{
    for (int rank = 0; rank < grid->rank_count; rank++) {
        const int end = put_weights(grid, rank, is_split);
        if (end > grid->used) grid->used = end;
    }
}

/// What a rank holds between two slots.
typedef struct rank_memory {
    int held;
    int pending;
} rank_memory;

/// Memory after a slot. Where weights are not in the grid, an empty slot does the one that waits.
static rank_memory behind(rank_memory before, uint8_t kind, bool has_weights)
{
    switch (kind) {
    case BLOCK_F0:
    case BLOCK_F1:
        before.held++;
        return before;
    case BLOCK_B1:
    case BLOCK_B0:
        before.pending++;
        return before;
    case BLOCK_EMPTY:
        if (has_weights || before.pending == 0) return before;
        break;
    default: // W
        break;
    }
    before.held--;
    before.pending--;
    return before;
}

/// Writes the memory of a rank slot by slot; the largest.
static int write_memory(block_grid *grid, int rank, bool has_weights)
{
    const size_t first = (size_t)rank * (size_t)grid->width;
    rank_memory memory = {0};
    int peak = 0;
    for (int slot = 0; slot < grid->used; slot++) {
        memory = behind(memory, grid->cell[first + (size_t)slot], has_weights);
        grid->held[first + (size_t)slot] = memory.held;
        grid->pending[first + (size_t)slot] = memory.pending;
        if (memory.held > peak) peak = memory.held;
    }
    return peak;
}

/// Writes held and pending; the largest held of all ranks.
///
/// @param has_weights false: none are in the grid, and every empty slot does one that waits
static int write_all_memory(block_grid *grid, bool has_weights)
{
    int peak = 0;
    for (int rank = 0; rank < grid->rank_count; rank++) {
        const int held = write_memory(grid, rank, has_weights);
        if (held > peak) peak = held;
    }
    return peak;
}

/// The rules of one pull.
typedef struct puller {
    block_grid *grid;
    int held_max;
    bool has_weights;
} puller;

/// The memory of a rank whose op of a kind moves from `last` to `slot`, with weights in the grid.
///
/// @return as walk_memory; the memory is kept where it is -1
static int move_memory(const puller *by, int rank, block_kind kind, int slot, int last)
{
    int *held = by->grid->held + (size_t)rank * (size_t)by->grid->width;
    const int change = kind <= BLOCK_F1 ? 1 : kind >= BLOCK_W1 ? -1 : 0;
    if (change == 0) return -1;
    // From behind, so that the search for a slot goes on as far on as it can.
    for (int between = last - 1; change > 0 && between >= slot; between--) {
        if (held[between] >= by->held_max) return between;
    }
    for (int between = slot; between < last; between++) {
        held[between] += change;
    }
    return -1;
}

/// Without weights in the grid: walks the memory of a rank from a slot on, of which the first and
/// the one at `last` have changed kinds, to where it is again as it was.
///
/// @return the slot at which more than held_max is held, or -1
static int walk_memory(const puller *by, int rank, int slot, int last, bool is_kept)
{
    const block_grid *grid = by->grid;
    const size_t first = (size_t)rank * (size_t)grid->width;
    int *held = grid->held + first;
    int *pending = grid->pending + first;
    rank_memory memory = {0};
    if (slot > 0) memory = (rank_memory){held[slot - 1], pending[slot - 1]};
    for (; slot < grid->used; slot++) {
        memory = behind(memory, grid->cell[first + (size_t)slot], false);
        if (slot >= last && held[slot] == memory.held && pending[slot] == memory.pending) break;
        if (memory.held > by->held_max) return slot;
        if (!is_kept) continue;
        held[slot] = memory.held;
        pending[slot] = memory.pending;
    }
    return -1;
}

/// Moves an op to the first empty slot from `earliest` on that memory allows. Where a slot is too
/// early for memory to hold until some later slot, so is every other up to that one.
static void pull_op(const puller *by, int rank, block_kind kind, int index, int earliest)
{
    uint8_t *row = bal_block_row(by->grid, rank);
    int *const at = &bal_block_slots(by->grid, rank, kind)[index];
    const bool takes_two = by->grid->is_whole && (kind == BLOCK_B1 || kind == BLOCK_B0);
    for (int slot = earliest; slot < *at; slot++) {
        if (row[slot] != BLOCK_EMPTY || (takes_two && row[slot + 1] != BLOCK_EMPTY)) continue;
        row[slot] = (uint8_t)kind;
        row[*at] = BLOCK_EMPTY;
        const int exceeded = by->has_weights ? move_memory(by, rank, kind, slot, *at)
                                             : walk_memory(by, rank, slot, *at, false);
        if (exceeded < 0) {
            if (!by->has_weights) walk_memory(by, rank, slot, *at, true);
            *at = slot;
            return;
        }
        row[slot] = BLOCK_EMPTY;
        row[*at] = (uint8_t)kind;
        slot = exceeded;
    }
}

/// The slot of the backward of a rank before which `index` others stand: the one whose W is the
/// W `index`, as long as weights are joined.
static int backward_slot(const block_grid *grid, int rank, int index)
{
    const int *one = bal_block_slots(grid, rank, BLOCK_B1);
    const int *zero = bal_block_slots(grid, rank, BLOCK_B0);
    const int count = grid->microbatch_count;
    int low = index + 1 > count ? index + 1 - count : 0; // of the index + 1 first, those of `one`
    int high = index + 1 < count ? index + 1 : count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (one[middle] < zero[index - middle]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const int last_one = low > 0 ? one[low - 1] : -1;
    const int last_zero = low <= index ? zero[index - low] : -1;
    return last_one > last_zero ? last_one : last_zero;
}

/// The slot of the backward that a W waits for, or of which it is the second one; else -1.
static int awaited_backward(const block_grid *grid, int rank, block_kind kind, int index)
{
    if (kind < BLOCK_W1) return -1;
    return grid->is_whole ? bal_block_slots(grid, rank, (block_kind)(kind - 2))[index]
                          : backward_slot(grid, rank, index);
}

/// The slot behind everything that an op waits for: its neighbour, the op before it of the same
/// microbatch, and the op before it of the same kind. What waits for a whole backward waits for its
/// second slot.
static int earliest_slot(const block_grid *grid, int rank, block_kind kind, int index)
{
    int after = -1;
    const bool is_down = kind == BLOCK_F0 || kind == BLOCK_B1;
    const bool is_up = kind == BLOCK_F1 || kind == BLOCK_B0;
    const int other = is_down ? rank - 1 : rank + 1;
    const int second = grid->is_whole ? BLOCK_W1 - BLOCK_B1 : 0;
    const int own = kind >= BLOCK_B1 ? second : 0;
    const int awaited[] = {
        (is_down || is_up) && other >= 0 && other < grid->rank_count
            ? bal_block_slots(grid, other, (block_kind)((int)kind + own))[index]
            : -1,
        is_up || kind == BLOCK_B1
            ? bal_block_slots(grid, rank,
                              (block_kind)((int)kind - 1 + (kind == BLOCK_B0 ? second : 0)))[index]
            : -1,
        awaited_backward(grid, rank, kind, index),
        index > 0 ? bal_block_slots(grid, rank, kind)[index - 1] : -1,
    };
    for (size_t wait = 0; wait < sizeof awaited / sizeof awaited[0]; wait++) {
        if (awaited[wait] > after) after = awaited[wait];
    }
    return after + 1;
}

/// Where an iteration stands, slot by slot over all ranks.
typedef enum block_phase { BLOCK_WARMUP, BLOCK_STEADY, BLOCK_COOLDOWN } block_phase;

/// Pulls the ops of the cool-down, after the last first forward, and with weights in the grid also
/// those of the warm-up, before the first last backward.
static void pull(block_grid *grid, bool has_weights, block_phase phase)
{
    const puller by = {grid, write_all_memory(grid, has_weights), has_weights};
    const int warmup_end = bal_block_slots(grid, 0, BLOCK_B0)[0];
    memset(grid->next, 0, (size_t)grid->rank_count * BLOCK_KIND_COUNT * sizeof *grid->next);
    for (int slot = 0; slot < grid->used; slot++) {
        for (int rank = 0; rank < grid->rank_count; rank++) {
            const block_kind kind = (block_kind)bal_block_row(grid, rank)[slot];
            if (kind == BLOCK_EMPTY) continue;
            const int index = grid->next[rank * BLOCK_KIND_COUNT + (int)kind]++;
            if (phase == BLOCK_WARMUP && slot >= warmup_end) phase = BLOCK_STEADY;
            if (phase == BLOCK_STEADY) {
                if (kind == BLOCK_F0 && index == grid->microbatch_count - 1) phase = BLOCK_COOLDOWN;
            } else if (phase == BLOCK_COOLDOWN || has_weights) {
                pull_op(&by, rank, kind, index, earliest_slot(grid, rank, kind, index));
            }
        }
    }
}

void bal_block_grid_pull(block_grid *grid)
{
    pull(grid, true, BLOCK_COOLDOWN);
}

/// Moves the op in a cell to the slot after the op before it on its rank and the one whose message
/// it needs. `free` is where the rank goes on.
static int squeeze_op(block_grid *grid, int rank, int slot, int free)
{
    uint8_t *cell = bal_block_row(grid, rank) + slot;
    const block_kind kind = (block_kind)*cell;
    const int index = grid->next[rank * BLOCK_KIND_COUNT + (int)kind]++;
    int to = free;
    if (kind < BLOCK_W1) {
        const int other = kind == BLOCK_F0 || kind == BLOCK_B1 ? rank - 1 : rank + 1;
        if (other >= 0 && other < grid->rank_count) {
            const int arrival = bal_block_slots(grid, other, kind)[index] + 1;
            if (arrival > to) to = arrival;
        }
    }
    *cell = BLOCK_EMPTY;
    bal_block_place(grid, rank, kind, index, to);
    return to + 1;
}

static void squeeze(block_grid *grid)
{
    int *free = grid->held; // of rank r
    int used = 0;
    memset(grid->next, 0, (size_t)grid->rank_count * BLOCK_KIND_COUNT * sizeof *grid->next);
    memset(free, 0, (size_t)grid->rank_count * sizeof *free);
    for (int slot = 0; slot < grid->used; slot++) {
        for (int rank = 0; rank < grid->rank_count; rank++) {
            if (bal_block_row(grid, rank)[slot] == BLOCK_EMPTY) continue;
            free[rank] = squeeze_op(grid, rank, slot, free[rank]);
            if (free[rank] > used) used = free[rank];
        }
    }
    grid->used = used;
}

void bal_block_grid_begin(block_grid *grid, const building_block *block)
{
    bal_block_grid_repeat(grid, block);
    put_all_weights(grid, false);
    pull(grid, true, BLOCK_WARMUP);
    squeeze(grid);
}

void bal_block_grid_end_pulled(block_grid *grid)
{
    drop_weights(grid);
    pull(grid, false, BLOCK_WARMUP);
    put_all_weights(grid, false);
    squeeze(grid);
    drop_weights(grid);
    put_all_weights(grid, true);
}

/// Takes the last ops of a kind out of a rank.
static void take_last(block_grid *grid, int rank, block_kind kind, int count, int total)
{
    const int *slots = bal_block_slots(grid, rank, kind);
    for (int index = total - count; index < total; index++) {
        bal_block_row(grid, rank)[slots[index]] = BLOCK_EMPTY;
    }
}

/// Puts the last ops of a kind into every other slot up to `last`. False where one is taken.
static bool put_last(block_grid *grid, int rank, block_kind kind, int count, int last)
{
    for (int back = 0; back < count; back++) {
        const int slot = last - 2 * back;
        if (slot < 0 || bal_block_row(grid, rank)[slot] != BLOCK_EMPTY) return false;
        bal_block_place(grid, rank, kind, grid->microbatch_count - 1 - back, slot);
        if (slot >= grid->used) grid->used = slot + 1;
    }
    return true;
}

/// Puts the W from index `weight` on into the empty slots after the one before, each after the
/// backward that it belongs to by their order. False where one of those before is too early.
static bool put_last_weights(block_grid *grid, int rank, int weight)
{
    const uint8_t *row = bal_block_row(grid, rank);
    const int total = 2 * grid->microbatch_count;
    const int after = weight > 0 ? bal_block_slots(grid, rank, BLOCK_W1)[weight - 1] : -1;
    int pending = 0;
    int slot = 0;
    for (; slot < grid->used || weight < total; slot++) {
        const int kind = row[slot];
        if (kind == BLOCK_B1 || kind == BLOCK_B0) pending++;
        if (kind == BLOCK_W1 && --pending < 0) return false;
        if (kind != BLOCK_EMPTY || slot <= after || pending == 0) continue;
        bal_block_place(grid, rank, BLOCK_W1, weight++, slot);
        pending--;
    }
    if (slot > grid->used) grid->used = slot;
    return true;
}

/// Tells the chunks of joined W apart: a rank's W stand in the order of its backwards.
static void split_weights(block_grid *grid)
{
    for (int rank = 0; rank < grid->rank_count; rank++) {
        uint8_t *row = bal_block_row(grid, rank);
        int done[2] = {0};
        int backward = 0;
        for (int slot = 0; slot < grid->used; slot++) {
            if (row[slot] != BLOCK_W1) continue;
            while (row[backward] != BLOCK_B1 && row[backward] != BLOCK_B0) {
                backward++;
            }
            const int weight = row[backward++] - BLOCK_B1;
            bal_block_place(grid, rank, (block_kind)(BLOCK_W1 + weight), done[weight]++, slot);
        }
    }
}

bool bal_block_grid_end_alternating(block_grid *grid)
{
    const int peak = write_all_memory(grid, true);
    const int count = grid->microbatch_count;
    const int up = (peak + 1) / 2 < count ? (peak + 1) / 2 : count;
    const int down_max = peak - up < count ? peak - up : count;
    const int last_forward = bal_block_slots(grid, 0, BLOCK_F1)[count - 1];
    for (int rank = 0; rank < grid->rank_count; rank++) {
        const int down = rank + 1 < down_max ? rank + 1 : down_max;
        int weights = up + down > peak ? up + down : peak;
        if (weights > 2 * count) weights = 2 * count;
        take_last(grid, rank, BLOCK_B0, up, count);
        take_last(grid, rank, BLOCK_B1, down, count);
        take_last(grid, rank, BLOCK_W1, weights, 2 * count);
        const bool is_put =
            put_last(grid, rank, BLOCK_B0, up, last_forward + 2 * grid->rank_count - rank) &&
            put_last(grid, rank, BLOCK_B1, down, last_forward + 1 + rank) &&
            put_last_weights(grid, rank, 2 * count - weights);
        if (!is_put) return false;
    }
    split_weights(grid);
    return true;
}

void bal_block_grid_restore(block_grid *grid)
{
    for (int rank = 0; rank < grid->rank_count; rank++) {
        const uint8_t *row = bal_block_row(grid, rank);
        int next[BLOCK_KIND_COUNT] = {0};
        for (int slot = 0; slot < grid->used; slot++) {
            if (row[slot] == BLOCK_EMPTY) continue;
            bal_block_slots(grid, rank, (block_kind)row[slot])[next[row[slot]]++] = slot;
        }
    }
}

/// Whether every op stands behind what it waits for.
static bool is_in_time(const block_grid *grid)
{
    for (int rank = 0; rank < grid->rank_count; rank++) {
        for (int kind = 0; kind <= BLOCK_W1; kind++) {
            const int count = (kind == BLOCK_W1 ? 2 : 1) * grid->microbatch_count;
            const int *slots = bal_block_slots(grid, rank, (block_kind)kind);
            for (int index = 0; index < count; index++) {
                if (slots[index] < earliest_slot(grid, rank, (block_kind)kind, index)) return false;
            }
        }
    }
    return true;
}

bool bal_block_grid_fill(block_grid *grid)
{
    for (size_t cell = 0; cell < (size_t)grid->rank_count * (size_t)grid->width; cell++) {
        if (grid->cell[cell] == BLOCK_W0) grid->cell[cell] = BLOCK_W1;
    }
    bal_block_grid_restore(grid);
    if (!is_in_time(grid)) return false;
    squeeze(grid);
    pull(grid, true, BLOCK_COOLDOWN);
    split_weights(grid);
    return true;
}

void bal_block_grid_kinds(const block_grid *grid, uint8_t *kinds)
{
    for (int rank = 0; rank < grid->rank_count; rank++) {
        const uint8_t *row = bal_block_row(grid, rank);
        for (int slot = 0; slot < grid->used; slot++) {
            if (row[slot] != BLOCK_EMPTY) *kinds++ = row[slot];
        }
    }
}

void bal_block_grid_write(const block_grid *grid, bal_op *ops)
{
    static const struct {
        bal_op_kind kind;
        int chunk;
    } op_of[BLOCK_KIND_COUNT] = {{OP_FORWARD, 0},         {OP_FORWARD, 1},
                                 {OP_BACKWARD_INPUT, 1},  {OP_BACKWARD_INPUT, 0},
                                 {OP_BACKWARD_WEIGHT, 1}, {OP_BACKWARD_WEIGHT, 0}};
    for (int rank = 0; rank < grid->rank_count; rank++) {
        int microbatch[BLOCK_KIND_COUNT] = {0};
        const uint8_t *row = bal_block_row(grid, rank);
        for (int slot = 0; slot < grid->used; slot++) {
            const int kind = row[slot];
            const bool is_second = grid->is_whole && kind >= BLOCK_W1;
            if (kind == BLOCK_EMPTY || is_second) continue;
            const bool is_whole = grid->is_whole && kind >= BLOCK_B1;
            ops = bal_op_put(ops, is_whole ? OP_BACKWARD : op_of[kind].kind, op_of[kind].chunk,
                             microbatch[kind]++);
        }
    }
}
