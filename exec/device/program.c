#include "exec/device/program.h"

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
