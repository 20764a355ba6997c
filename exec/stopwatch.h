/// When the work of a rank got to where in an iteration: laps of the host's clock, or of the
/// device's own where the backend can tell (exec_kernel_table.mark), and the ops they belong to.
///
/// Laps of the host's clock are known at once. Those of a device are known once it has got there,
/// so that times are asked for after exec_stopwatch_settle. Until then an op may wait for other
/// ranks, on the host or on the device: as long as that takes, or as long as it would by a clock
/// that the ranks compose.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "exec/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef struct exec_stopwatch {
    exec_kernels *kernels; // borrowed
    clockid_t clock;       // of the host, where the backend has no marks
    double time_factor;    // of the host's clock: >= 1, a part of an op takes that much longer
    int64_t ahead_ns;      // that laps are taken to be ahead: waits that have not been counted
    int64_t waited_ns;     // of the part of an op at hand, which time_factor leaves alone
    int64_t wait_since_ns; // of the op at hand
    int wait_count;        // that marks tell: two each, from lap_max on
    int lap_count;
    int lap_max;
    int64_t *lap_ns; // [lap_max] from any origin; until it is settled how far it is ahead of its
                     // mark
    int64_t **cell;  // [lap_max] where the time from the lap before belongs; NULL: nowhere
    int64_t **wait_cell; // [lap_max] where those of it belong that passed waiting; NULL: nowhere
    int *wait_end;       // [lap_max] wait_count by then
    int op_count;
    int op_max;
    int *first_lap; // [op_max] at which an op begins
    int *last_lap;  // [op_max] at which it ends
} exec_stopwatch;

/// @param lap_max laps of an iteration, with the one at its begin
/// @param memory  of the arrays
exec_stopwatch exec_stopwatch_of(exec_kernels *kernels, clockid_t clock, int lap_max, int op_max,
                                 arena *memory);

/// An iteration begins now.
status exec_stopwatch_begin(exec_stopwatch *watch, error_message *err);

/// An op begins.
void exec_stopwatch_begin_op(exec_stopwatch *watch);

/// A part of the op has ended. With a time_factor the caller is held up, computing on, until the
/// part has taken that many times as long.
///
/// @param cell, wait_cell get the time since the lap before, and what the op waited of it, once it
///                        is settled; NULL: not wanted
void exec_stopwatch_lap(exec_stopwatch *watch, int64_t *cell, int64_t *wait_cell);

/// Since the op at hand has begun, by the host's clock.
int64_t exec_stopwatch_op_ns(const exec_stopwatch *watch);

/// The op waits for other ranks from here on.
///
/// @param composes whether the caller tells how long the wait is to count. Then the op waits for
///                 what is enqueued
/// @param op_ns    out: how long the op has taken so far; 0 where nobody knows yet
/// @return a failure of what is enqueued
status exec_stopwatch_begin_wait(exec_stopwatch *watch, bool composes, int64_t *op_ns,
                                 error_message *err);

/// It has waited.
///
/// @param composed_ns that the wait is to count: on top of what the host's clock has counted, in
///                    place of what a device's has. Not read unless it composes
status exec_stopwatch_end_wait(exec_stopwatch *watch, bool composes, int64_t composed_ns,
                               error_message *err);

/// The op ends, with its last part; one without parts had nothing to do, and takes no time.
void exec_stopwatch_end_op(exec_stopwatch *watch);

/// Waits for all work that is enqueued; the cells of these ops are then filled.
///
/// @param first_op the first that has not been settled yet
/// @return the first failure of that work
status exec_stopwatch_settle(exec_stopwatch *watch, int first_op, error_message *err);

/// Since the iteration's begin, of an op that has been settled.
int64_t exec_stopwatch_op_begin_ns(const exec_stopwatch *watch, int op);
int64_t exec_stopwatch_op_end_ns(const exec_stopwatch *watch, int op);
