/// What one rank does in an iteration: its ops in order, and the messages before and after each.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/arena.h"

/// One op of a rank. Places are those of the pipeline, not ranks of the machine or of the world.
typedef struct exec_step {
    bal_op op;
    int stage;
    int wait_place; // place that sends its input; its own: handed over in memory; -1: no input
    int wait_stage; // with wait_place: the stage whose output it is
    int send_place; // place that its output goes to; its own: in memory; -1: no output
    int send_stage; // with send_place: the stage that it goes to
} exec_step;

typedef struct exec_program {
    int place;
    int step_count;
    const exec_step *steps; // [step_count]
} exec_program;

/// Compiles the program of a place. The order must have passed bal_schedule_check: whoever leads
/// checks it once, so that no run begins that would get stuck.
///
/// @param place   in [0, schedule->rank_count)
/// @param program carved from memory. Time O(ops of the place).
void exec_program_compile(const bal_schedule *schedule, int place, arena *memory,
                          exec_program *program);
