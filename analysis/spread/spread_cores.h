/// The cores of this machine and who of it may use which.
#pragma once

#include <stdint.h>

enum { ANA_CORES_MAX = 4096 };

/// Cores as the system numbers them: bit c % 64 of word c / 64.
typedef struct ana_core_set {
    uint64_t words[ANA_CORES_MAX / 64];
} ana_core_set;

/// Those that this process is bound to; core 0 alone where the system does not tell.
void ana_core_set_of_process(ana_core_set *set);

int ana_core_set_count(const ana_core_set *set);

/// How many cores' time the process's control group allows, rounded up; ANA_CORES_MAX: no limit.
/// Version 2 of control groups, also those above, and the root of version 1 as containers see it.
int ana_core_quota(void);

/// Divides cores among processes that may share some: each core goes to that of its users that has
/// fewest so far, the earlier one of several.
///
/// @param sets   [count] each process's
/// @param shares [count] out: cores of each, at least 1
void ana_core_shares(const ana_core_set *sets, int count, int *shares);
