/// Which rows of a microbatch a block computes: of each sequence as many as mixture of depths says,
/// which the device picks by a router's scores (choose_rows, kernels.h); or those that have not
/// left yet (early exit; find_live and leave_rows).
///
/// A microbatch is sequence_count sequences of sequence_length rows each, one after the other.
/// Chosen rows are named by ascending number, so the causal order of a sequence is that of its
/// chosen rows.
#pragma once

#include <stdbool.h>

/// Mixture of depths.
typedef struct exec_mod_options {
    double capacity_ratio; // of the rows of a sequence, in (0, 1]
    int every;             // 1: every block routes; 2: every second one, beginning with the second
} exec_mod_options;

/// Whether block (from 0) routes; the others compute all rows.
bool exec_mod_routes(const exec_mod_options *options, int block);

/// Rows of a sequence that a routing block computes: capacity_ratio of them, to the nearest, at
/// least one.
int exec_mod_row_count(const exec_mod_options *options, int sequence_length);

/// By what a token is found sure: CALM's three measures of confidence, and that of ADP-C (Liu et
/// al., arXiv 2104.00749, for pixels; CALM's code has it too, as softmax_max).
typedef enum exec_exit_measure {
    EXEC_EXIT_SATURATION,  // cosine of the hidden states before and after the block
    EXEC_EXIT_SOFTMAX,     // the largest less the second largest of the softmax of a head
    EXEC_EXIT_PROBABILITY, // the largest of it
    EXEC_EXIT_CLASSIFIER,  // logistic function of a trained vector times the hidden state
    EXEC_EXIT_MEASURE_COUNT
} exec_exit_measure;

/// Early exit.
typedef struct exec_early_exit_options {
    int measure;           // exec_exit_measure
    double threshold;      // of the measure, once it has settled: in (-1, 1] of saturation, else in
                           // (0, 1]
    double target_cosine;  // classifier: it learns whether saturation exceeds this, in (-1, 1]
    int settle_iterations; // it comes down from 1 by exp(-iteration / settle_iterations); 0: at
                           // once
    int first_exit;        // block (from 0) after which the first tokens may leave
} exec_early_exit_options;

/// From the first block on, within some 100 iterations; threshold 0.99 of saturation, 0.5 of the
/// others: of 8 blocks of width 64 the later ones are then left with a half to a tenth of the
/// tokens by saturation, with more by the softmax.
exec_early_exit_options exec_early_exit_options_default(exec_exit_measure measure);

/// The confidence above which a token leaves in this iteration.
double exec_exit_threshold(const exec_early_exit_options *options, int iteration);

/// Whether the threshold passes another tenth of its way between this iteration and the next: where
/// a model that exits early is said to have changed.
bool exec_exit_threshold_settles(const exec_early_exit_options *options, int iteration);
