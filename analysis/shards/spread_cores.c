/// How many cores this process may use.
#define _GNU_SOURCE // sched_getaffinity
#include "analysis/shards/spread.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/// Reads two words of a small file; false if it is not there.
static bool read_words(const char *path, char first[32], char second[32])
{
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    first[0] = second[0] = '\0';
    const int count = fscanf(file, "%31s %31s", first, second);
    fclose(file);
    return count >= 1;
}

static int quota_of(const char *quota, const char *period)
{
    const long long quota_us = atoll(quota); // "max" and -1: no limit
    const long long period_us = atoll(period);
    if (quota_us <= 0 || period_us <= 0) return CORES_MAX;
    const long long cores = (quota_us + period_us - 1) / period_us;
    return cores < CORES_MAX ? (int)cores : CORES_MAX;
}

/// The path of the process in version 2, "0::/some/path" in /proc/self/cgroup; "" if there is none.
static void read_group(char path[PATH_MAX])
{
    char line[PATH_MAX];
    FILE *file = fopen("/proc/self/cgroup", "r");
    path[0] = '\0';
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::", 3) == 0) strcpy(path, line + 3);
    }
    if (file != NULL) fclose(file);
}

/// How many cores' time the process's control group allows, rounded up; CORES_MAX: no limit.
/// Version 2 of control groups, also those above, and the root of version 1 as containers see it.
static int core_quota(void)
{
    static const char root[] = "/sys/fs/cgroup";
    char group[PATH_MAX];
    char quota[32];
    char period[32];
    int cores = CORES_MAX;
    read_group(group);
    for (;;) { // the group and all above it
        char path[PATH_MAX + sizeof root + sizeof "/cpu.max"];
        snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
        const int limit = read_words(path, quota, period) ? quota_of(quota, period) : cores;
        if (limit < cores) cores = limit;
        char *last = strrchr(group, '/');
        if (last == NULL) break;
        *last = '\0';
    }
    char unused[32];
    if (read_words("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, unused) &&
        read_words("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, unused)) {
        const int limit = quota_of(quota, period);
        if (limit < cores) cores = limit;
    }
    return cores;
}

int ana_spread_core_count(void)
{
    const int count = bound_core_count();
    const int quota = core_quota();
    return count < quota ? count : quota;
}
