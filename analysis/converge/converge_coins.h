/// Coins that are a function of instance, round and node: any of them can be looked at first, or
/// not at all, and rounds can be played again.
#pragma once

#include "base/rng.h"

#include <stdint.h>

/// Source: the generator of Steele, Lea and Flood, OOPSLA 2014 (SplittableRandom), read at any
/// place: a start and an odd step per instance, mixed by the finaliser of splitmix64.
typedef struct ana_coins {
    uint64_t start;
    uint64_t step;
} ana_coins;

/// One sequence per pair of seed and instance.
static inline ana_coins ana_coins_make(uint64_t seed, uint64_t instance)
{
    rng random = rng_init(seed, instance);
    const uint64_t start = rng_next(&random);
    return (ana_coins){.start = start, .step = rng_next(&random) | 1};
}

/// 64 coins, of which bit n is the role of a node: 1, it sends. word < 2^12 counts them within a
/// round.
static inline uint64_t ana_coins_word(const ana_coins *coins, int64_t round, int word)
{
    uint64_t z = coins->start + (((uint64_t)round << 12) + (uint64_t)word) * coins->step;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/// A node's lot in a round, by which ties are broken. The words of a round after those of the
/// roles, mixed with the node.
static inline uint64_t ana_coins_lot(const ana_coins *coins, int64_t round, int node)
{
    uint64_t z =
        ana_coins_word(coins, round, 2048) ^ ((uint64_t)node + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/// One of [0, count) by a lot's lower half.
static inline int ana_coins_pick(uint64_t lot, int count)
{
    return (int)((lot & UINT32_MAX) * (uint64_t)count >> 32);
}
