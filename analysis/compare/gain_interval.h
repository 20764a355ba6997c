/// A gain of one run over another, and how far it could have come out otherwise.
#pragma once

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { ANA_BOOTSTRAP_ROUNDS = 1000, ANA_BOOTSTRAP_COUNT_MIN = 20, ANA_BOOTSTRAP_BLOCKS_MIN = 5 };

/// A gain, and how far it could have come out otherwise on iterations like these.
typedef struct ana_gain_interval {
    double gain; // sum of the baseline over sum of the other, minus 1
    double low;  // of the interval; the gain itself where is_short
    double high;
    int block;     // iterations that are drawn together
    bool is_short; // too few iterations for an interval
} ana_gain_interval;

/// A moving-block bootstrap of paired iterations (Kuensch, Annals of Statistics 17 (1989);
/// circular: Politis & Romano (1992)): draws blocks of consecutive iterations, the same of both
/// runs, and takes quantiles of the gain. A block is as long as the first of the lags 1, 2, 4, ...
/// at which the differences of the two runs are not correlated any more (within 2 / sqrt(count)),
/// at least the cube root of count and at most a fifth of it.
///
/// @param baseline_ns [count] lengths of the iterations
/// @param other_ns    [count] of the same iterations; where their sum is 0 the gain is 0
/// @param tail        probability that is cut off at each end, in (0, 0.5)
/// @param interval    is_short where count is below ANA_BOOTSTRAP_COUNT_MIN
///
/// Time O(ANA_BOOTSTRAP_ROUNDS * count).
void ana_gain_interval_of(const int64_t *baseline_ns, const int64_t *other_ns, int count,
                          double tail, uint64_t seed, arena *memory, ana_gain_interval *interval);
