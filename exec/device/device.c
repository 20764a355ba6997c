#include "exec/device/device.h"

#include "base/arena.h"

#include <stdlib.h>

/// The stage that the output of an op goes to, or -1.
static int receiver_of(const bal_schedule *schedule, bal_op op, int stage)
{
    if (op.kind == OP_BACKWARD_WEIGHT) return -1;
    if (op.kind != OP_FORWARD) {
        return bal_stage_before(schedule->placement, schedule->rank_count, stage);
    }
    return bal_stage_behind(schedule->placement, schedule->rank_count, schedule->chunk_count,
                            stage);
}

void exec_program_compile(const bal_schedule *schedule, int place, arena *memory,
                          exec_program *program)
{
    const int first = schedule->first_op[place];
    const int count = schedule->first_op[place + 1] - first;
    exec_step *steps = arena_array(memory, (size_t)count, sizeof *steps);
    for (int step = 0; step < count; step++) {
        const bal_op op = schedule->ops[first + step];
        const int stage = bal_schedule_stage(schedule, place, op.chunk);
        bal_op_kind kind = OP_FORWARD;
        const int from = bal_op_waits_for(schedule, place, op, &kind);
        const int to = receiver_of(schedule, op, stage);
        steps[step] = (exec_step){
            .op = op,
            .stage = stage,
            .wait_place = from >= 0 ? bal_schedule_rank(schedule, from) : -1,
            .wait_stage = from,
            .send_place = to >= 0 ? bal_schedule_rank(schedule, to) : -1,
            .send_stage = to,
        };
    }
    *program = (exec_program){.place = place, .step_count = count, .steps = steps};
}

void exec_layer_report_list(exec_layer_report *report, int64_t **arrays[EXEC_REPORT_ARRAYS],
                            int columns[EXEC_REPORT_ARRAYS])
{
    int64_t **const all[EXEC_REPORT_ARRAYS] = {
        &report->forward_ns,       &report->backward_input_ns, &report->backward_weight_ns,
        &report->exchange_ns,      &report->parameters,        &report->state_bytes,
        &report->activation_bytes, &report->gradient_bytes,    &report->message_bytes,
        &report->load_count};
    for (int array = 0; array < EXEC_REPORT_ARRAYS; array++) {
        arrays[array] = all[array];
        columns[array] = array < EXEC_REPORT_TIMES ? report->microbatch_count : 1;
    }
    columns[EXEC_REPORT_ARRAYS - 1] = report->microbatch_count * report->load_columns;
}

void exec_layer_report_carve(exec_layer_report *report, arena *memory)
{
    int64_t **arrays[EXEC_REPORT_ARRAYS];
    int columns[EXEC_REPORT_ARRAYS];
    exec_layer_report_list(report, arrays, columns);
    const size_t rows = (size_t)report->layer_count;
    report->layer = arena_array(memory, rows, sizeof *report->layer);
    for (int array = 0; array < EXEC_REPORT_ARRAYS; array++) {
        *arrays[array] = arena_array(memory, rows * (size_t)columns[array], sizeof **arrays[array]);
    }
}

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
