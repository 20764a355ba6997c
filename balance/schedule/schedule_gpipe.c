#include "balance/schedule/schedule_families.h"

/// All forwards, then all backwards. Source: Huang et al., GPipe, NeurIPS 2019.
bal_op *bal_schedule_fill_gpipe(int rank_count, int chunk_count, int microbatch_count, int rank,
                                bal_op *ops)
{
    (void)rank_count;
    (void)chunk_count;
    (void)rank;
    for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
        ops = bal_op_put(ops, OP_FORWARD, 0, microbatch);
    }
    for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
        ops = bal_op_put(ops, OP_BACKWARD, 0, microbatch);
    }
    return ops;
}
