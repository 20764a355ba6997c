#include "analysis/export/export_pytorch.h"

#include <assert.h>

static void write_op(const bal_schedule *schedule, int rank, bal_op op, text_buffer *out)
{
    static const char *const letters[OP_KIND_COUNT] = {
        [OP_FORWARD] = "F",
        [OP_BACKWARD_INPUT] = "I",
        [OP_BACKWARD_WEIGHT] = "W",
        [OP_BACKWARD] = "B",
    };
    assert(op.kind < OP_KIND_COUNT);
    const int stage = bal_stage_of(schedule->placement, schedule->rank_count, schedule->chunk_count,
                                   rank, op.chunk);
    text_format(out, "%d%s%d", stage, letters[op.kind], (int)op.microbatch);
}

static void write_rank(const bal_schedule *schedule, int rank, text_buffer *out)
{
    const int end = schedule->first_op[rank + 1];
    for (int op = schedule->first_op[rank]; op < end; op++) {
        const bool is_pair = schedule->ops[op].overlaps_next != 0;
        if (op > schedule->first_op[rank]) text_append(out, ",");
        if (is_pair) text_append(out, "(");
        write_op(schedule, rank, schedule->ops[op], out);
        if (!is_pair) continue;
        text_append(out, ";");
        write_op(schedule, rank, schedule->ops[++op], out);
        text_append(out, ")OVERLAP_F_B");
    }
    text_append(out, "\n");
}

status ana_export_pytorch(const bal_schedule *schedule, text_buffer *out, error_message *err)
{
    if (schedule->placement != BAL_PLACEMENT_LOOP && schedule->placement != BAL_PLACEMENT_V) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s places every stage on two ranks; torch has each on one",
                         schedule->name);
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        write_rank(schedule, rank, out);
    }
    return STATUS_OK;
}
