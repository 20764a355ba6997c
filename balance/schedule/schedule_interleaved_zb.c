#include "balance/schedule/schedule_families.h"

/// Microbatches that go through one chunk before the next chunk takes them: P, or somewhat more
/// where P does not divide M.
static int round_size(int rank_count, int microbatch_count)
{
    const int rounds = microbatch_count / rank_count;
    return rounds > 1 ? microbatch_count / rounds : microbatch_count;
}

status bal_schedule_rule_interleaved_zb(int rank_count, int microbatch_count, error_message *err)
{
    if (microbatch_count % round_size(rank_count, microbatch_count) == 0) return STATUS_OK;
    const int rounds = microbatch_count / rank_count;
    return error_set(err, STATUS_INVALID,
                     "microbatch_count %d: schedule interleaved-zb makes %d rounds on %d ranks, "
                     "and needs a multiple of them",
                     microbatch_count, rounds, rank_count);
}

/// The index-th op of a kind on a rank. Backwards take the chunks from the last to the first.
static bal_op *put_virtual(bal_op *next, bal_op_kind kind, int round, int chunk_count, int index)
{
    const int row = index / round % chunk_count;
    const int chunk = kind == OP_FORWARD ? row : chunk_count - 1 - row;
    return bal_op_put(next, kind, chunk, index / (round * chunk_count) * round + index % round);
}

/// W runs rank ops behind B. Source: ScheduleInterleavedZeroBubble of PyTorch, after ZB1P of Qi et
/// al., Zero bubble pipeline parallelism, ICLR 2024.
bal_op *bal_schedule_fill_interleaved_zb(int rank_count, int chunk_count, int microbatch_count,
                                         int rank, bal_op *ops)
{
    const int round = round_size(rank_count, microbatch_count);
    const int total = microbatch_count * chunk_count;
    const int ahead = (chunk_count - 1) * round + rank_count - 1 - rank;
    const int warmup = ahead < total ? ahead : total;
    for (int index = 0; index < warmup; index++) {
        ops = put_virtual(ops, OP_FORWARD, round, chunk_count, index);
    }
    for (int index = 0; index < total; index++) {
        if (warmup + index < total) {
            ops = put_virtual(ops, OP_FORWARD, round, chunk_count, warmup + index);
        }
        ops = put_virtual(ops, OP_BACKWARD_INPUT, round, chunk_count, index);
        if (index < rank) continue;
        ops = put_virtual(ops, OP_BACKWARD_WEIGHT, round, chunk_count, index - rank);
    }
    for (int index = total > rank ? total - rank : 0; index < total; index++) {
        ops = put_virtual(ops, OP_BACKWARD_WEIGHT, round, chunk_count, index);
    }
    return ops;
}
