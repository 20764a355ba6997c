/// Gradual magnitude pruning: when a model is pruned and how much of it stays.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/// Of the matrices of all blocks; biases, norms, embedding and head are not pruned.
typedef struct exec_pruning_options {
    int start_iteration;     // sparsity is initial_sparsity from here on, 0 before
    int end_iteration;       // sparsity is final_sparsity from here on
    int interval;            // iterations from step to step; divides end - start
    double initial_sparsity; // share of the weights that is pruned, in [0, final_sparsity]
    double final_sparsity;   // in [initial_sparsity, 1]
    /// A block of whose weights at least this share is pruned is held without them, in compressed
    /// rows, and computed with in these; in [0, 1], 0: never.
    double csr_from;
} exec_pruning_options;

/// Whether the model is pruned before this iteration, and so after the one in front of it.
bool exec_pruning_is_step(const exec_pruning_options *options, int iteration);

/// Sparsity that a step at iteration leaves:
/// S_f + (S_i - S_f) (1 - (t - start) / (end - start))^3.
///
/// Source: Zhu and Gupta, To prune, or not to prune, arXiv 1710.01878, equation 1.
double exec_pruning_sparsity(const exec_pruning_options *options, int iteration);

/// Weights of weight_count that stay at a sparsity, to the nearest.
int64_t exec_pruning_kept_count(double sparsity, int64_t weight_count);
