/// What layers will take in the next iteration, from the iterations seen so far.
///
/// Four simple methods run side by side for every layer: the last value; exponential means with
/// factors 0.3 and 0.05; and a damped trend (level 0.5, slope 0.3, damping 0.98). Each layer uses
/// the one whose own one-step forecasts have erred least so far, older errors counting less. So a
/// layer whose load drifts is extrapolated, one with independent noise gets its mean, and one that
/// jumps and stays keeps its last value.
///
/// Source: the damped trend is that of Gardner & McKenzie, Management Science 31 (1985).
#pragma once

#include "balance/costs/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"

enum { BAL_FORECAST_METHODS = 4 };

/// State of one layer. Plain numbers, ns.
typedef struct bal_layer_forecast {
    double next_ns[BAL_FORECAST_METHODS];  // what each method says of the next iteration, >= 0
    double error_ns[BAL_FORECAST_METHODS]; // discounted sums of absolute errors
    double level_ns;                       // of the damped trend
    double slope_ns;
    double error_weight; // sum of the discounts in error_ns
    int seen_count;      // iterations since it began, or began anew
} bal_layer_forecast;

typedef struct bal_forecast {
    int layer_count;
    bal_layer_forecast *layers; // [layer_count]
    double *whole_ns;           // [layer_count] scratch
} bal_forecast;

/// Carves the arrays from memory.
void bal_forecast_init(bal_forecast *forecast, int layer_count, arena *memory);

/// Learns from an iteration. Call for every one, in order. Time O(layers).
void bal_forecast_observe(bal_forecast *forecast, const bal_layer_times *times);

/// The forecast for the iteration after the last one observed, split into passes as that was.
///
/// @param times as last observed
/// @param out   times itself is allowed
void bal_forecast_fill(const bal_forecast *forecast, const bal_layer_times *times,
                       bal_layer_times *out);

/// The method that a layer uses now: 0 last value, 1 and 2 the means, 3 the trend. Of equal ones
/// the first.
int bal_forecast_method(const bal_forecast *forecast, int layer);
