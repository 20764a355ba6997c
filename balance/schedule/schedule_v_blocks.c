/// v-half and v-min: fixed orders of V-placed chunks that hold half and a third of 1F1B's
/// activations.
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
