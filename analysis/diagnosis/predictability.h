/// How well an iteration tells the next ones: of each layer's share of its iteration's time, which
/// is what a plan depends on; slower or faster iterations as a whole are no imbalance.
#pragma once

#include "analysis/diagnosis/iteration_series.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

enum { ANA_LAGS_MAX = 40, ANA_CHANGE_POINTS_MAX = 64, ANA_SEGMENT_MIN = 4 };

/// Of one layer, or of all of them with their variances added up. Lags are in samples of the
/// series. Where nothing varies, ratios are NAN and half_life is -1.
typedef struct ana_predictability {
    double share_mean;      // of the iteration's time; of all layers: 1
    double variation_ratio; // standard deviation over mean; of all layers: root of the summed
                            // variances over the root of the summed squared means
    double noise_ratio;     // part of the variance that is gone one sample later: half the mean
                            // squared difference of neighbours over the variance (von Neumann),
                            // at most 1
    int half_life;          // first lag at which the correlation is half of that at lag 1 or less;
                            // 0: none to begin with (lag 1 is within 2 / sqrt(count));
                            // -1: longer than half of the series
} ana_predictability;

/// Of all layers together, at one distance.
typedef struct ana_lag {
    int lag;
    double correlation;    // of shares `lag` samples apart, their means removed
    double persistence_r2; // 1 - error of "as it is now" / error of "as the mean": 1 is a perfect
                           // forecast, 0 no better than the mean, -1 what noise alone gives
} ana_lag;

typedef struct ana_forecastability {
    ana_predictability overall;
    const ana_predictability *layers; // [layer_count of the series]
    int lag_count;
    ana_lag lags[ANA_LAGS_MAX]; // 1, 2, 3, 4, 6, 8, 12, ... up to half of the series
    int change_point_count;     // jumps of the shares that noise does not explain
    bool change_points_capped;  // there are more
} ana_forecastability;

/// Measures a series. Change points are found by binary segmentation: a segment is cut where the
/// squared distance of its two means, in units of the noise of neighbouring samples, is larger than
/// one in 1,000 series without a change would show (chi-square with layer_count - 1 degrees of
/// freedom, Bonferroni over the places). Steady drift shows as many of them.
///
/// @param forecast arrays are carved from memory
///
/// Time O(count x layers x (lags + change points)).
void ana_forecastability_of(const ana_series *series, arena *memory, ana_forecastability *forecast);

/// Finds jumps of many noisy series at once, by binary segmentation: the places at which the mean
/// of the columns changes. The largest jump is cut first, then its two sides, as long as a jump
/// stands out of the noise; see ana_forecastability_of.
///
/// @param values       [row_count][column_count]
/// @param points       [ANA_CHANGE_POINTS_MAX] out: first rows after the jumps, in the order in
///                     which they were found
/// @param point_count  out
/// @param is_capped    out: there are more than ANA_CHANGE_POINTS_MAX
/// Time O(rows x columns x points).
void ana_change_points_find(const double *values, int row_count, int column_count, arena *memory,
                            int points[ANA_CHANGE_POINTS_MAX], int *point_count, bool *is_capped);
