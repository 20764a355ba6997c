/// What a sample says, and how sure it is.
#pragma once

#include <stdint.h>

/// Intervals hold what they name with the confidence asked for.
typedef struct ana_sample {
    int64_t count;
    double mean;
    double mean_low; // Student's t; NaN below two values
    double mean_high;
    double median;
    double p95;
    double p95_low;  // order statistics, no assumption on the distribution; NaN where the sample is
    double p95_high; // too small to bound that side
    double max;
} ana_sample;

/// @param values     [count] >= 1 (asserted), finite; sorted by the call
/// @param confidence in (0, 1), such as 0.95
///
/// Time O(count log count).
ana_sample ana_sample_of(double *values, int64_t count, double confidence);

/// The exact interval of a probability from hits among count tries (above 100,000 the score
/// interval, which is then as good).
/// Source: Clopper & Pearson, Biometrika 26 (1934).
void ana_share_interval(int64_t hits, int64_t count, double confidence, double *low, double *high);
