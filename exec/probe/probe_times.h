/// Repeated measurements of one thing: warmed up, then taken until there are enough, told as
/// median, least and number.
#pragma once

#include "base/status.h"
#include "exec/kernels/kernels.h"

#include <stdint.h>

enum { EXEC_PROBE_SAMPLES_MIN = 5, EXEC_PROBE_SAMPLES_MAX = 1000 };

/// A clock; tests have their own.
typedef struct exec_probe_clock {
    void *context;
    int64_t (*now_ns)(void *context);
} exec_probe_clock;

/// The monotonic clock of the machine.
exec_probe_clock exec_probe_clock_default(void);

typedef struct exec_probe_times {
    int64_t median_ns; // of the samples; the lower one of two in the middle
    int64_t min_ns;
    int count;
} exec_probe_times;

/// @param samples [count] ns, count >= 1; sorted behind the call
exec_probe_times exec_probe_times_of(int64_t *samples, int count);

/// What is measured: enqueues operations and does not wait for them.
typedef struct exec_probe_work {
    void *context;
    void (*enqueue)(void *context, exec_kernels *kernels);
} exec_probe_work;

/// Measures work on a backend: once unseen, then until budget_ns has passed, at least
/// EXEC_PROBE_SAMPLES_MIN times. A backend that marks its own time is asked for it; of others the
/// clock is read around the work and its end.
///
/// @return what the backend's finish returns
status exec_probe_measure(exec_kernels *kernels, exec_probe_clock clock, int64_t budget_ns,
                          const exec_probe_work *work, exec_probe_times *times, error_message *err);
