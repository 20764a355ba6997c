#include "balance/schedule/schedule_families.h"

status bal_schedule_rule_interleaved_1f1b(int rank_count, int microbatch_count, error_message *err)
{
    if (microbatch_count % rank_count == 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "microbatch_count %d: schedule interleaved-1f1b needs a multiple of "
                     "rank_count %d",
                     microbatch_count, rank_count);
}

/// The index-th forward of a rank: P microbatches through one chunk, then the same through the
/// next, then the next P microbatches. Backwards take the chunks from the last to the first.
static bal_op *put_virtual(bal_op *next, bal_op_kind kind, int rank_count, int chunk_count,
                           int index)
{
    const int group = rank_count * chunk_count;
    const int row = index % group / rank_count;
    const int chunk = kind == OP_FORWARD ? row : chunk_count - 1 - row;
    return bal_op_put(next, kind, chunk, index / group * rank_count + index % rank_count);
}

/// Source: Narayanan et al., Efficient large-scale language model training, SC 2021, section 2.2;
/// warmup as Megatron-LM counts it.
bal_op *bal_schedule_fill_interleaved_1f1b(int rank_count, int chunk_count, int microbatch_count,
                                           int rank, bal_op *ops)
{
    const int total = microbatch_count * chunk_count;
    const int64_t ahead =
        2 * (int64_t)(rank_count - 1 - rank) + (int64_t)(chunk_count - 1) * rank_count;
    const int warmup = ahead < total ? (int)ahead : total;
    for (int index = 0; index < warmup; index++) {
        ops = put_virtual(ops, OP_FORWARD, rank_count, chunk_count, index);
    }
    for (int index = 0; index < total; index++) {
        if (warmup + index < total) {
            ops = put_virtual(ops, OP_FORWARD, rank_count, chunk_count, warmup + index);
        }
        ops = put_virtual(ops, OP_BACKWARD, rank_count, chunk_count, index);
    }
    return ops;
}
