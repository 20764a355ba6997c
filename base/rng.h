/// Random numbers, and functions of them, that are the same on every machine: a seed, split per
/// purpose.
#pragma once

#include <stdint.h>

/// Plain state in the caller's memory, filled by rng_init.
typedef struct rng {
    uint64_t state[4];
} rng;

/// @param purpose a number of the caller's choice: streams of one seed with different purposes
///                are independent
/// Source: xoshiro256**, Blackman & Vigna, ACM TOMS 47 (2021), seeded by splitmix64.
rng rng_init(uint64_t seed, uint64_t purpose);

/// Uniform over all 64-bit numbers.
uint64_t rng_next(rng *generator);

/// Uniform in [0, bound), without modulo bias; bound >= 1.
uint64_t rng_below(rng *generator, uint64_t bound);

/// Uniform in [low, high], low <= high.
int64_t rng_between(rng *generator, int64_t low, int64_t high);

/// Uniform in [0, 1) with 53 random bits.
double rng_unit(rng *generator);

/// Close to standard normal: mean 0, variance 1, within (-6, 6); the sum of twelve uniform numbers,
/// exact in binary. Takes three words.
double rng_normal(rng *generator);

/// e to the x, within 2e-15 of it, for x in [-700, 700] (asserted): additions, products and
/// comparisons only, as libm differs between systems.
double rng_portable_exp(double x);
