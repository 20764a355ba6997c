/// The fixed orders of V-placed chunks that repeat a building block: 1f1b-v, v-half and v-min, with
/// two thirds, half and a third of 1F1B's activations.
///
/// Source: Qi et al., Pipeline parallelism with controllable memory, NeurIPS 2024, section 3 and
/// appendix; equal to the orders of its authors' code.
#include "balance/schedule/schedule_block_grid.h"
#include "balance/schedule/schedule_families.h"

/// The block of a rank. Where ranks are even (v-half) or threes (v-min), a gap before the backwards
/// keeps two ops out of one slot.
typedef building_block block_of_rank(int rank_count, int rank);

static building_block v_half_block(int rank_count, int rank)
{
    const int gap = rank_count % 2 == 0 ? 3 : 0;
    return (building_block){{2 * rank, 3 * rank_count - rank - 2,
                             3 * rank_count + gap + 2 * rank - 1, 6 * rank_count + gap - rank - 2}};
}

static building_block v_min_block(int rank_count, int rank)
{
    const int gap = rank_count % 3 == 0 ? 2 : 0;
    return (building_block){{rank, 2 * rank_count - rank - 1, 2 * rank_count + gap + rank,
                             4 * rank_count + gap - rank - 1}};
}

static void order(const bal_schedule_request *request, block_of_rank *block_of, arena *memory,
                  bal_op *ops)
{
    const int ranks = request->rank_count;
    building_block *block = arena_array(memory, (size_t)ranks, sizeof *block);
    for (int rank = 0; rank < ranks; rank++) {
        block[rank] = block_of(ranks, rank);
    }
    block_grid grid;
    bal_block_grid_init(&grid, ranks, request->microbatch_count, block[0].slot[BLOCK_B0], memory);
    bal_block_grid_begin(&grid, block);
    bal_block_grid_end_pulled(&grid);
    bal_block_grid_write(&grid, ops);
}

status bal_schedule_order_v_half(const bal_schedule_request *request, arena *memory, bal_op *ops,
                                 error_message *err)
{
    (void)err;
    order(request, v_half_block, memory, ops);
    return STATUS_OK;
}

status bal_schedule_order_v_min(const bal_schedule_request *request, arena *memory, bal_op *ops,
                                error_message *err)
{
    (void)err;
    order(request, v_min_block, memory, ops);
    return STATUS_OK;
}

// 1f1b-v: every BW of the block takes two slots; then every op, slot by slot, moves to the front.

/// Writes the slots of one kind of backward, up or down the ranks. Three BW fill a period, and the
/// fourth waits for the forwards of the next.
static void place_backwards(building_block *block, int rank_count, block_kind kind, int *slot,
                            int *in_period)
{
    for (int step = 0; step < rank_count; step++) {
        const int rank = kind == BLOCK_B1 ? step : rank_count - 1 - step;
        block[rank].slot[kind] = *slot;
        *slot += 2;
        if (++*in_period < 3) continue;
        *in_period = 0;
        *slot += 3;
    }
}

static void fill_1f1b_block(building_block *block, int rank_count)
{
    for (int rank = 0; rank < rank_count; rank++) {
        block[rank].slot[BLOCK_F0] = rank;
        block[rank].slot[BLOCK_F1] = 2 * rank_count - 1 - rank;
    }
    int slot = 2 * rank_count + (rank_count % 3 == 0 ? 3 : 0);
    int in_period = (3 - (rank_count + 2) % 3) % 3;
    place_backwards(block, rank_count, BLOCK_B1, &slot, &in_period);
    place_backwards(block, rank_count, BLOCK_B0, &slot, &in_period);
}

/// Puts the second slot of every BW after its first.
static void place_second_slots(block_grid *grid)
{
    for (int rank = 0; rank < grid->rank_count; rank++) {
        for (int kind = BLOCK_B1; kind <= BLOCK_B0; kind++) {
            const int *first = bal_block_slots(grid, rank, (block_kind)kind);
            for (int index = 0; index < grid->microbatch_count; index++) {
                bal_block_place(grid, rank, (block_kind)(kind + 2), index, first[index] + 1);
                if (first[index] + 2 > grid->used) grid->used = first[index] + 2;
            }
        }
    }
}

status bal_schedule_order_1f1b_v(const bal_schedule_request *request, arena *memory, bal_op *ops,
                                 error_message *err)
{
    (void)err;
    const int ranks = request->rank_count;
    building_block *block = arena_array(memory, (size_t)ranks, sizeof *block);
    fill_1f1b_block(block, ranks);
    block_grid grid;
    bal_block_grid_init(&grid, ranks, request->microbatch_count, block[0].slot[BLOCK_B0], memory);
    bal_block_grid_repeat(&grid, block);
    grid.is_whole = true;
    place_second_slots(&grid);
    bal_block_grid_pull(&grid);
    bal_block_grid_write(&grid, ops);
    return STATUS_OK;
}
