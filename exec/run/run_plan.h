/// The plan of an execution as every rank has it: stages, order, and the rank's own program.
#pragma once

#include "balance/placement.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/run/program.h"
#include "exec/transport/parcel.h"

/// Zero-initialise; release with exec_run_plan_free.
typedef struct exec_run_plan {
    arena *memory;
    bal_placed_partition placed; // with machine_rank
    bal_schedule schedule;       // one order for all replicas
    int place;                   // of this rank; -1: none
    exec_program program;        // of the place; no steps without one
    const int *layer;            // [layer_count] that this rank holds, in model order
    int layer_count;
} exec_run_plan;

/// Puts a plan into the parcel of a command.
///
/// @param schedule one that bal_schedule_check accepts
status exec_run_plan_put(exec_parcel *parcel, const bal_placed_partition *placed,
                         const bal_schedule *schedule);

/// Takes it out and compiles the program of this rank.
///
/// @param machine_rank of this rank
/// @param plan         what was in it is given up
/// @return STATUS_NO_MEMORY. Time O(ops).
status exec_run_plan_take(exec_run_plan *plan, exec_parcel *parcel, int machine_rank);

void exec_run_plan_free(exec_run_plan *plan);
