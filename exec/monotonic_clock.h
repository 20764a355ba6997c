/// The clock that processes of one machine share, and its times as the system takes them.
#pragma once

#include <stdint.h>
#include <time.h>

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
