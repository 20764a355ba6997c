#include "balance/schedule/schedule_families.h"

/// The hand-made zero-bubble orders: rank s runs depth * (P - 1 - s) forwards ahead and holds back
/// the W of depth * s microbatches, so that every rank keeps about depth * P activations. Depth 1
/// fills the memory of 1F1B, depth 2 hides the whole bubble where F, B and W are equal.
static bal_op *fill(int depth, int rank_count, int microbatch_count, int rank, bal_op *ops)
{
    const int ahead = depth * (rank_count - 1 - rank);
    const int warmup = ahead < microbatch_count ? ahead : microbatch_count;
    const int delay = depth * rank;
    for (int microbatch = 0; microbatch < warmup; microbatch++) {
        ops = bal_op_put(ops, OP_FORWARD, 0, microbatch);
    }
    for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
        if (warmup + microbatch < microbatch_count) {
            ops = bal_op_put(ops, OP_FORWARD, 0, warmup + microbatch);
        }
        ops = bal_op_put(ops, OP_BACKWARD_INPUT, 0, microbatch);
        if (microbatch >= delay) {
            ops = bal_op_put(ops, OP_BACKWARD_WEIGHT, 0, microbatch - delay);
        }
    }
    const int run = microbatch_count > delay ? microbatch_count - delay : 0;
    for (int microbatch = run; microbatch < microbatch_count; microbatch++) {
        ops = bal_op_put(ops, OP_BACKWARD_WEIGHT, 0, microbatch);
    }
    return ops;
}

/// Source: Qi et al., Zero bubble pipeline parallelism, ICLR 2024, section 2, ZB-H1.
bal_op *bal_schedule_fill_zb_h1(int rank_count, int chunk_count, int microbatch_count, int rank,
                                bal_op *ops)
{
    (void)chunk_count;
    return fill(1, rank_count, microbatch_count, rank, ops);
}

/// Source: as ZB-H1; ZB-H2.
bal_op *bal_schedule_fill_zb_h2(int rank_count, int chunk_count, int microbatch_count, int rank,
                                bal_op *ops)
{
    (void)chunk_count;
    return fill(2, rank_count, microbatch_count, rank, ops);
}
