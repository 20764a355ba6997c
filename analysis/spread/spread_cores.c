#define _GNU_SOURCE // sched_getaffinity
#include "analysis/spread/spread_cores.h"

#include "analysis/spread/spread.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set_has(const ana_core_set *set, int core)
{
    return (set->words[core / 64] >> (core % 64) & 1) != 0;
}

void ana_core_set_of_process(ana_core_set *set)
{
    cpu_set_t *bound = CPU_ALLOC(ANA_CORES_MAX);
    const size_t bytes = CPU_ALLOC_SIZE(ANA_CORES_MAX);
    *set = (ana_core_set){0};
    if (bound != NULL && sched_getaffinity(0, bytes, bound) == 0) {
        for (int core = 0; core < ANA_CORES_MAX; core++) {
            if (CPU_ISSET_S((size_t)core, bytes, bound))
                set->words[core / 64] |= UINT64_C(1) << core % 64;
        }
    }
    CPU_FREE(bound);
    if (ana_core_set_count(set) == 0) set->words[0] = 1;
}

int ana_core_set_count(const ana_core_set *set)
{
    int count = 0;
    for (int core = 0; core < ANA_CORES_MAX; core++) {
        count += set_has(set, core);
    }
    return count;
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
    if (quota_us <= 0 || period_us <= 0) return ANA_CORES_MAX;
    const long long cores = (quota_us + period_us - 1) / period_us;
    return cores < ANA_CORES_MAX ? (int)cores : ANA_CORES_MAX;
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

int ana_core_quota(void)
{
    static const char root[] = "/sys/fs/cgroup";
    char group[PATH_MAX];
    char quota[32];
    char period[32];
    int cores = ANA_CORES_MAX;
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

void ana_core_shares(const ana_core_set *sets, int count, int *shares)
{
    memset(shares, 0, (size_t)count * sizeof *shares);
    for (int core = 0; core < ANA_CORES_MAX; core++) {
        int user = -1;
        for (int process = 0; process < count; process++) {
            if (!set_has(&sets[process], core)) continue;
            if (user < 0 || shares[process] < shares[user]) user = process;
        }
        if (user >= 0) shares[user]++;
    }
    for (int process = 0; process < count; process++) {
        if (shares[process] == 0) shares[process] = 1;
    }
}

int ana_spread_core_count(void)
{
    ana_core_set set;
    ana_core_set_of_process(&set);
    const int count = ana_core_set_count(&set);
    const int quota = ana_core_quota();
    return count < quota ? count : quota;
}
