/// chimera: two pipelines in opposite directions over the same ranks, each with a copy of the model
/// and half of the microbatches, merged so that neither waits for the other.
///
/// With F and BW of one slot, microbatch j of a pipeline begins 2j slots after its first, and P
/// slots of pause follow every P / 2 microbatches: the pipelines then never want a rank in the same
/// slot. A unit is the P microbatches of both pipelines between two pauses; the next begins where
/// the cool-down of the one before leaves slots (direct concatenation). With other times, the order
/// stays.
///
/// Source: Li & Hoefler, Chimera, SC'21, sections 3.1 and 3.5.
#include "balance/schedule/schedule_families.h"

enum { PIPELINES = 2, STREAMS = 2 * PIPELINES };

/// The slot of the op `index` of a stream whose first is in slot `first`.
static int64_t slot_of(int rank_count, int first, int index)
{
    const int half = rank_count / 2;
    return first + 2 * (index + (int64_t)(index / half) * half);
}

status bal_schedule_rule_chimera(int rank_count, int microbatch_count, error_message *err)
{
    if (rank_count % 2 != 0) {
        return error_set(err, STATUS_INVALID,
                         "rank_count %d: schedule chimera needs an even number of ranks",
                         rank_count);
    }
    if (microbatch_count % 2 != 0) {
        return error_set(err, STATUS_INVALID,
                         "microbatch_count %d: schedule chimera needs an even number, half for "
                         "each direction",
                         microbatch_count);
    }
    return STATUS_OK;
}

bal_op *bal_schedule_fill_chimera(int rank_count, int chunk_count, int microbatch_count, int rank,
                                  bal_op *ops)
{
    (void)chunk_count;
    const struct {
        bal_op_kind kind;
        int chunk;
        int first;
    } streams[STREAMS] = {
        {OP_FORWARD, 0, rank},
        {OP_FORWARD, 1, rank_count - 1 - rank},
        {OP_BACKWARD, 0, 2 * rank_count - 1 - rank},
        {OP_BACKWARD, 1, rank_count + rank},
    };
    int next[STREAMS] = {0};
    for (int64_t left = (int64_t)STREAMS * microbatch_count; left > 0; left--) {
        int earliest = -1;
        int64_t slot = INT64_MAX;
        for (int stream = 0; stream < STREAMS; stream++) {
            if (next[stream] == microbatch_count) continue;
            const int64_t own = slot_of(rank_count, streams[stream].first, next[stream]);
            if (own >= slot) continue;
            slot = own;
            earliest = stream;
        }
        ops = bal_op_put(ops, streams[earliest].kind, streams[earliest].chunk, next[earliest]++);
    }
    return ops;
}
