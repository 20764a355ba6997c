/// When a rank's work got to where: laps of the host's clock, or of the device's own where the
/// backend can tell (exec_kernel_table.mark).
#pragma once

#include "base/status.h"
#include "exec/kernels.h"

#include <stdint.h>
#include <time.h>

typedef struct exec_stopwatch {
    exec_kernels *kernels; // borrowed
    clockid_t clock;       // of the host, where the backend has no marks
    int64_t *lap_ns;       // [lap_max] owned; after exec_stopwatch_stop, from any origin
    int lap_count;
    int lap_max;
} exec_stopwatch;

/// @return STATUS_NO_MEMORY, watch then all zero. Release with exec_stopwatch_reset.
status exec_stopwatch_init(exec_stopwatch *watch, exec_kernels *kernels, clockid_t clock,
                           int lap_max, error_message *err);
void exec_stopwatch_reset(exec_stopwatch *watch);

/// Begins anew: the first lap is now.
status exec_stopwatch_start(exec_stopwatch *watch, error_message *err);

/// Notes the next lap.
status exec_stopwatch_lap(exec_stopwatch *watch, error_message *err);

/// Waits for the work that was enqueued before the last lap; lap_ns is then filled.
///
/// @return the first failure of that work
status exec_stopwatch_stop(exec_stopwatch *watch, error_message *err);
