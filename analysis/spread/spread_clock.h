/// The clock by which waits and silences are measured. Nothing that is put depends on it.
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t ana_spread_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
