#include "exec/mechanism/weight_order.h"
#include "base/arena.h"

#include <stdlib.h>

static status check_rank(const bal_schedule *schedule, int rank, int *next, error_message *err)
{
    for (int index = schedule->first_op[rank]; index < schedule->first_op[rank + 1]; index++) {
        const bal_op op = schedule->ops[index];
        if (op.kind != OP_BACKWARD_WEIGHT && op.kind != OP_BACKWARD) continue;
        const int stage = bal_schedule_stage(schedule, rank, op.chunk);
        if (op.microbatch != next[stage]) {
            bal_op expected = op;
            expected.microbatch = next[stage];
            return error_set(err, STATUS_INVALID,
                             "rank %d: %s of stage %d stands before %s: training adds up gradients "
                             "in ascending microbatches",
                             rank, bal_op_name(op).text, stage, bal_op_name(expected).text);
        }
        next[stage]++;
    }
    return STATUS_OK;
}

status exec_weight_order_check(const bal_schedule *schedule, error_message *err)
{
    const size_t stage_count = (size_t)schedule->rank_count * (size_t)schedule->chunk_count;
    int *next =
        memory_array(stage_count, sizeof *next); // [stage] microbatch whose gradients come next
    status result = STATUS_OK;
    for (int rank = 0; rank < schedule->rank_count && result == STATUS_OK; rank++) {
        result = check_rank(schedule, rank, next, err);
    }
    free(next);
    return result;
}
