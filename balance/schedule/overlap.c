#include "balance/schedule/overlap.h"

#include <math.h>

bool bal_schedule_overlaps(const bal_schedule *schedule)
{
    for (int op = 0; op < schedule->first_op[schedule->rank_count]; op++) {
        if (schedule->ops[op].overlaps_next != 0) return true;
    }
    return false;
}

/// Copies rows of columns, or of one column, into rows with a column for each microbatch.
static int64_t *spread(const int64_t *times, int row_count, int columns, int microbatch_count,
                       arena *memory)
{
    const size_t width = (size_t)microbatch_count;
    int64_t *cells = arena_array(memory, (size_t)row_count * width, sizeof *cells);
    for (size_t row = 0; row < (size_t)row_count; row++) {
        for (size_t column = 0; column < width; column++) {
            cells[row * width + column] = times[columns > 1 ? row * width + column : row];
        }
    }
    return cells;
}

static void shorten(int64_t *ns, double ratio)
{
    *ns = (int64_t)round((double)*ns * ratio);
}

static void shorten_op(const bal_schedule *schedule, int rank, bal_op op, double ratio,
                       int64_t *const times[OP_BACKWARD])
{
    const int stage = bal_schedule_stage(schedule, rank, op.chunk);
    const int64_t cell = (int64_t)stage * schedule->microbatch_count + op.microbatch;
    if (op.kind == OP_FORWARD) {
        shorten(&times[OP_FORWARD][cell], ratio);
        return;
    }
    shorten(&times[OP_BACKWARD_INPUT][cell], ratio);
    if (op.kind == OP_BACKWARD) shorten(&times[OP_BACKWARD_WEIGHT][cell], ratio);
}

status bal_overlap_costs(const bal_schedule *schedule, const bal_stage_costs *costs, double ratio,
                         arena *memory, bal_stage_costs *out, error_message *err)
{
    if (!(ratio > 0 && ratio <= 1)) {
        return error_set(err, STATUS_INVALID, "overlap ratio %g is outside (0, 1]", ratio);
    }
    const int microbatches = schedule->microbatch_count;
    const int stages = costs->stage_count;
    const int columns = costs->microbatch_count;
    const int64_t *const given[OP_BACKWARD] = {
        [OP_FORWARD] = costs->forward_ns,
        [OP_BACKWARD_INPUT] = costs->backward_input_ns,
        [OP_BACKWARD_WEIGHT] = costs->backward_weight_ns,
    };
    int64_t *times[OP_BACKWARD] = {NULL};
    const int64_t *delays = costs->message_delay_ns;
    for (int kind = 0; kind < OP_BACKWARD; kind++) {
        times[kind] = spread(given[kind], stages, columns, microbatches, memory);
    }
    if (delays != NULL) {
        delays = spread(delays, 2 * stages, columns, microbatches, memory);
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            if (schedule->ops[op].overlaps_next == 0) continue;
            shorten_op(schedule, rank, schedule->ops[op], ratio, times);
            shorten_op(schedule, rank, schedule->ops[op + 1], ratio, times);
        }
    }
    *out = *costs;
    out->microbatch_count = microbatches;
    out->forward_ns = times[OP_FORWARD];
    out->backward_input_ns = times[OP_BACKWARD_INPUT];
    out->backward_weight_ns = times[OP_BACKWARD_WEIGHT];
    out->message_delay_ns = delays;
    return STATUS_OK;
}
