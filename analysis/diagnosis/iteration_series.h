/// The sampled iterations of a run, held in memory one after the other: read once, then looked at
/// by every part of a diagnosis and played by every row.
///
/// Between two samples nothing is known. A player that held the last sample would see noise that
/// stands still, and let balancers win from it; here every sample is an iteration of its own that
/// stands for the `stride` x `spacing` iterations of the run around it.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Iterations that are kept of a long run.
enum { ANA_SERIES_COUNT_MAX = 1 << 14 };

/// Arrays are carved from the arena given to ana_series_read.
typedef struct ana_series {
    int layer_count;
    int count;        // T: iterations that are kept, >= 1
    int sample_count; // iterations for which the source has costs of its own
    int stride;       // every stride-th of them is kept, from the first on
    int first, last;  // iterations of the first and the last sample
    bool announces_changes;
    int *iteration;         // [count] of the run
    bal_layer_costs *costs; // [count] as the source gave them
    int64_t *before_ns;     // [count][layer_count + 1] F + B + W of the layers before, the mean
                            // over the microbatches
} ana_series;

/// Reads a source from iteration 0 to iteration_count - 1.
///
/// Samples beyond count_max, or 256 MiB of costs, are thinned out evenly: every second one goes, as
/// often as needed.
///
/// @param count_max >= 2
/// @param series untouched on failure
/// @return what the source returns; STATUS_INVALID if the times of an iteration are negative or do
///         not fit int64 / 4, or iterations differ in their layers
///
/// Time O(iteration_count + samples x layers x columns).
status ana_series_read(const bal_cost_source *source, int iteration_count, int count_max,
                       arena *memory, ana_series *series, error_message *err);

/// Iterations of the run that one of the series stands for: 1 where all were sampled and kept.
double ana_series_spacing(const ana_series *series);

/// Prefix sums of the layers' times in an iteration. [layer_count + 1]
const int64_t *ana_series_before(const ana_series *series, int index);

/// Time of a layer.
int64_t ana_series_load_ns(const ana_series *series, int index, int layer);

/// The series as a source of `count` iterations. Borrows it; its costs stay as long as it does.
bal_cost_source ana_series_source(const ana_series *series);
