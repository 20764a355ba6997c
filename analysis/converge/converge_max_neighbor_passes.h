/// What the players of max-neighbor that pass over arrays without branches share.
#pragma once

#include "analysis/converge/converge_coins.h"

#include <string.h>

/// A function that is compiled a second time for vectors of 256 bits; results are the same.
#if defined(__x86_64__)
#define ANA_WIDE __attribute__((target("avx2")))
#else
#define ANA_WIDE
#endif
#define ANA_INLINE static inline __attribute__((always_inline))

enum { ANA_LANES = 8, ANA_NIBBLE_BITS = 4, ANA_NIBBLES = 1 << ANA_NIBBLE_BITS };

/// Whether this machine has vectors of 256 bits.
static inline bool ana_is_wide(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0;
#else
    return false;
#endif
}

/// Four coins at once as roles: 1.0 sends, 0.0 receives.
typedef struct ana_role_table {
    double nibble[ANA_NIBBLES][ANA_NIBBLE_BITS];
} ana_role_table;

static inline void ana_role_table_init(ana_role_table *table)
{
    for (int nibble = 0; nibble < ANA_NIBBLES; nibble++) {
        for (int bit = 0; bit < ANA_NIBBLE_BITS; bit++) {
            table->nibble[nibble][bit] = nibble >> bit & 1;
        }
    }
}

/// The roles of a round.
/// @param role [node_count + ANA_NIBBLE_BITS] out: behind node_count anything
static inline void ana_throw_roles(const ana_role_table *table, const ana_coins *coins,
                                   int64_t round, int node_count, double *role)
{
    uint64_t word = 0;
    for (int node = 0; node < node_count; node += ANA_NIBBLE_BITS) {
        if (node % 64 == 0) word = ana_coins_word(coins, round, node / 64);
        memcpy(role + node, table->nibble[word % ANA_NIBBLES], sizeof table->nibble[0]);
        word >>= ANA_NIBBLE_BITS;
    }
}

/// In lanes, which fix the order of the additions on every machine.
ANA_INLINE double ana_sum_in_lanes(const double *values, int count)
{
    double lane_sum[ANA_LANES] = {0};
    int k = 0;
    for (; k + ANA_LANES <= count; k += ANA_LANES) {
        for (int lane = 0; lane < ANA_LANES; lane++) {
            lane_sum[lane] += values[k + lane];
        }
    }
    for (; k < count; k++) {
        lane_sum[k % ANA_LANES] += values[k];
    }
    double sum = 0;
    for (int lane = 0; lane < ANA_LANES; lane++) {
        sum += lane_sum[lane];
    }
    return sum;
}
