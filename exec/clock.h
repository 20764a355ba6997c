/// What time the ops of an execution are told in; the clock that processes of one machine share,
/// and threads that wake when they asked to.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef enum exec_clock {
    EXEC_CLOCK_NOMINAL, ///< deadlines travel with the messages and nobody sleeps: the simulator's
                        ///< recurrence, run by real ranks. It tests order, matching and waits, not
                        ///< timing. Of a device that computes: its measured durations, composed
    EXEC_CLOCK_QUEUE,   ///< an op begins at the deadline of the one before if its input is there
                        ///< when the rank comes to it, as in the queue of a GPU; else when the
                        ///< input comes. Of a device that computes: as real
    EXEC_CLOCK_REAL,    ///< an op begins when the rank comes to it with its input
    EXEC_CLOCK_COUNT
} exec_clock;

/// "nominal", "queue", "real".
extern const char *const exec_clock_names[EXEC_CLOCK_COUNT];

static inline int64_t exec_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/// @param ns >= 0
static inline struct timespec exec_timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

/// Has the calling thread woken from sleeps without slack and, if real_time, before all threads
/// that are not SCHED_RR. Does without whatever the system does not allow.
void exec_thread_make_punctual(bool real_time);
