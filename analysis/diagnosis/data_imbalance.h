/// Imbalance of data beside imbalance of layers: microbatches that take unlike long, as sequences
/// of unlike length make them, and what it would gain if they were alike.
///
/// A long microbatch is long everywhere: in F where the model begins and in the backward where it
/// ends. Noise of single ops is not.
#pragma once

#include "analysis/diagnosis/iteration_series.h"
#include "analysis/study/setup.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// From this correlation on microbatches are said to be of unlike length; as `dynmo stragglers`.
extern const double ana_data_correlation_min;

/// What `dynmo stragglers` finds of a run of which every op of every replica was recorded. Costs of
/// layers are means over the replicas, in which unlike lengths vanish.
typedef struct ana_known_lengths {
    bool is_known;
    double correlation;
    double gain, low, high; // of microbatches that are alike; the interval as there
    double stages_gain;     // of stages that are equally long
} ana_known_lengths;

typedef struct ana_data_imbalance {
    bool is_known;            // microbatches are told apart, and are not all alike
    double correlation;       // of F on the first half of the layers and the backward on the other
                              // half, of one microbatch, about the iteration's means
    double scatter_ratio;     // standard deviation of microbatches over their mean
    double largest_over_mean; // mean over the iterations
} ana_data_imbalance;

/// Looks at the microbatches of a series.
///
/// Time O(iterations x layers x microbatches).
ana_data_imbalance ana_data_imbalance_of(const ana_series *series);

/// What iterations take under a plan that is kept if each of their microbatches cost what they cost
/// in the mean: more than any packing reaches.
///
/// @param first_layer [stages + 1]
/// @param taken_ns    [series->count] out
/// @return what the simulator returns
status ana_alike_take(const ana_setup *setup, const ana_series *series, const int *first_layer,
                      arena *memory, int64_t *taken_ns, error_message *err);
