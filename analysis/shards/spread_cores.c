/// How many cores this process may use.
#define _GNU_SOURCE // sched_getaffinity
#include "analysis/shards/spread.h"

#include <sched.h>
#include <stdio.h>

enum { CORES_MAX = 4096 };

/// The cores that this process is bound to; 1 where the system does not tell.
static int bound_core_count(void)
{
    cpu_set_t *bound = CPU_ALLOC(CORES_MAX);
    const size_t bytes = CPU_ALLOC_SIZE(CORES_MAX);
    int count = 0;
    if (bound != NULL && sched_getaffinity(0, bytes, bound) == 0) count = CPU_COUNT_S(bytes, bound);
    CPU_FREE(bound);
    return count > 0 ? count : 1;
}

/// How many cores' time the container's control group allows, rounded up; CORES_MAX: no limit.
static int core_quota(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r"); // "max 100000" or "150000 100000", us
    long long quota_us = 0;
    long long period_us = 0;
    if (file == NULL) return CORES_MAX;
    const int count = fscanf(file, "%lld %lld", &quota_us, &period_us);
    fclose(file);
    if (count != 2 || quota_us <= 0 || period_us <= 0) return CORES_MAX;
    const long long cores = (quota_us + period_us - 1) / period_us;
    return cores < CORES_MAX ? (int)cores : CORES_MAX;
}

int ana_spread_core_count(void)
{
    const int count = bound_core_count();
    const int quota = core_quota();
    return count < quota ? count : quota;
}
