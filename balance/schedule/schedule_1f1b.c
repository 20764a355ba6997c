#include "balance/schedule/schedule_families.h"

/// Warmup with one forward fewer on each later rank, then one forward and one backward in turn.
/// Source: Narayanan et al., PipeDream-flush, ICML 2021.
bal_op *bal_schedule_fill_1f1b(int rank_count, int chunk_count, int microbatch_count, int rank,
                               bal_op *ops)
{
    (void)chunk_count;
    const int ahead = rank_count - 1 - rank;
    const int warmup = ahead < microbatch_count ? ahead : microbatch_count;
    for (int microbatch = 0; microbatch < warmup; microbatch++) {
        ops = bal_op_put(ops, OP_FORWARD, 0, microbatch);
    }
    for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
        if (warmup + microbatch < microbatch_count) {
            ops = bal_op_put(ops, OP_FORWARD, 0, warmup + microbatch);
        }
        ops = bal_op_put(ops, OP_BACKWARD, 0, microbatch);
    }
    return ops;
}
