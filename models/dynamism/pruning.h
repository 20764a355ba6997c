/// Gradual magnitude pruning: how sparse a model is at an iteration, how that spreads over its
/// layers, and what a product with a sparse matrix costs beside a dense one.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// When the model is pruned and to which sparsity, the fraction of weights that is zero.
typedef struct model_pruning_schedule {
    int start_iteration;     // t0: sparsity is initial_sparsity from here on, 0 before
    int end_iteration;       // t0 + n dt: sparsity is final_sparsity from here on
    int interval;            // dt >= 1
    double initial_sparsity; // in [0, final_sparsity]
    double final_sparsity;   // in [initial_sparsity, 1]
    bool as_released; // steps of DynMo's released code: multiples of interval strictly between
                      // start and end, without those that prune at most 1 % of what is left
} model_pruning_schedule;

/// Of fields each within its limits.
///
/// @return STATUS_INVALID naming the field and its limit: the schedule ends before it starts or
///         holds no step, sparsities fall; and unless as_released, interval does not divide the
///         schedule
status model_pruning_schedule_check(const model_pruning_schedule *schedule, error_message *err);

/// Sparsity that the cubic schedule wants at an iteration, whether it is a step or not:
/// S_f + (S_i - S_f) (1 - (t - t0) / (n dt))^3 inside it.
///
/// Source: Zhu and Gupta, To prune, or not to prune, arXiv 1710.01878, equation 1.
double model_pruning_target(const model_pruning_schedule *schedule, int iteration);

/// The latest step that is not after iteration; -1 before the first. schedule is checked.
int model_pruning_last_step(const model_pruning_schedule *schedule, int iteration);

/// Sparsity while an iteration runs: that of the latest step. A step at t is done before iteration
/// t (counted from 0) runs, which is at the end of the t-th iteration.
double model_pruning_sparsity(const model_pruning_schedule *schedule, int iteration);

/// Density of each layer where the whole is pruned to sparsity by magnitude, weights of a layer
/// being normal around 0: erfc(t / (sigma sqrt(2))), with one t for all layers such that
/// (1 - sparsity) of all weights stay.
///
/// @param sigma        [layer_count] standard deviations, > 0
/// @param weight_count [layer_count] >= 0
/// @param density      [layer_count] out: in [0, 1]
///
/// Bisection with a fixed number of steps: the same numbers whatever the scale of sigma.
void model_pruning_densities(const double *sigma, const int64_t *weight_count, int layer_count,
                             double sparsity, double *density);

/// Time of a product with a sparse matrix over that of the dense one, measured at some densities.
typedef struct model_kernel_speed {
    const double *density; // [count] rising, in (0, 1]
    const double *ratio;   // [count] > 0, not falling
    int count;             // >= 1
} model_kernel_speed;

/// Sputnik against cuBLAS, float32, A100, 4096 x 4096 x 4096, densities 0.05 to 0.5.
///
/// Source: README of github.com/mabdullahsoyturk/Torch-Sputnik, from its times in ms.
extern const model_kernel_speed model_kernel_speed_sputnik_a100;

/// @return STATUS_INVALID naming the point: a density outside (0, 1] or not above the
///         one before, a ratio that is not positive or falls
status model_kernel_speed_check(const model_kernel_speed *speed, error_message *err);

/// The curve at a density in [0, 1]: linear between points, the first point below it (nothing was
/// measured there), and the slope of the last two points above the last. Of one point: constant.
double model_kernel_speed_at(const model_kernel_speed *speed, double density);
