#include "analysis/compare/agreement.h"

/// Where the op is noted that makes the output of a stage: of F, or of B or BW.
static int *maker_of(const bal_schedule *schedule, int *makers, bool is_forward, int stage,
                     int microbatch)
{
    const int stages = schedule->rank_count * schedule->chunk_count;
    return &makers[((is_forward ? 0 : (int64_t)stages) + stage) * schedule->microbatch_count +
                   microbatch];
}

const int *ana_senders(const bal_schedule *schedule, arena *memory)
{
    const size_t stages = (size_t)schedule->rank_count * (size_t)schedule->chunk_count;
    int *makers = arena_array(memory, 2 * stages * (size_t)schedule->microbatch_count, sizeof(int));
    int *senders =
        arena_array(memory, (size_t)schedule->first_op[schedule->rank_count], sizeof *senders);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const bal_op made = schedule->ops[op];
            const int stage = bal_schedule_stage(schedule, rank, made.chunk);
            if (made.kind == OP_BACKWARD_WEIGHT) continue;
            *maker_of(schedule, makers, made.kind == OP_FORWARD, stage, made.microbatch) =
                op + made.overlaps_next;
        }
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            bal_op_kind kind = OP_FORWARD;
            const int stage = bal_op_waits_for(schedule, rank, schedule->ops[op], &kind);
            const bool is_sent = stage >= 0 && bal_schedule_rank(schedule, stage) != rank;
            senders[op] = is_sent ? *maker_of(schedule, makers, kind == OP_FORWARD, stage,
                                              schedule->ops[op].microbatch)
                                  : -1;
        }
    }
    return senders;
}
