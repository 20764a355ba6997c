/// What makes a model dynamic while it trains: the options of each mechanism, and its decisions, as
/// far as they are arithmetic on a few numbers. README.md has what they do, and sources.
#pragma once

#include "exec/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

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

/// Layers freeze front to back, when they have learnt what they will: when their parameters move
/// little from one decision to the next, against how far they once did.
typedef struct exec_freezing_options {
    int interval;         // iterations from decision to decision, >= 1
    int start_iteration;  // nothing freezes before
    double tolerance;     // a layer is calm where its movement is below this share of its largest,
                          // in (0, 1]
    int patience;         // decisions in a row for which it must be calm while it is the first that
                          // learns, >= 1
    double largest_share; // of the layers, embedding and head among them, that may freeze, in
                          // [0, 1)
} exec_freezing_options;

/// Whether layers may freeze after an iteration.
bool exec_freezing_decides(const exec_freezing_options *options, int iteration);

/// What is known of a layer's movement. All zero: nothing yet.
typedef struct exec_plasticity {
    double movement;    // the mean of the last one and of what was known before it
    double largest;     // movement so far
    int32_t calm_count; // decisions in a row for which it has been calm, and the first that learns
    int32_t decision_count;
} exec_plasticity;
_Static_assert(sizeof(exec_plasticity) == 24, "no padding: it travels as it is");

/// ||now - before|| / ||now||, 0 where now is all zeros. In double, one by one.
double exec_parameter_movement(const float *now, const float *before, int64_t count);

/// Takes in the movement from the decision before to this one.
///
/// @param is_first whether the layer is the first that learns
///
/// Source of watching the first layer that learns alone: Wang et al., Egeria, EuroSys 2023, which
/// compares with a reference model what here are the layer's own parameters.
void exec_plasticity_observe(exec_plasticity *plasticity, double movement, bool is_first,
                             const exec_freezing_options *options);

/// How many layers are frozen from now on: those that were, and after them all that are calm, up
/// to the first that is not.
///
/// @param is_frozen, is_calm [layer_count] in model order, 0 or 1
int exec_frozen_layer_count(const int64_t *is_frozen, const int64_t *is_calm, int layer_count,
                            const exec_freezing_options *options);

/// Gradual magnitude pruning of the matrices of all blocks; biases, norms, embedding and head are
/// not pruned.
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

/// Mixture of experts: how the MLP of a block is divided.
typedef struct exec_moe_options {
    int expert_count; // >= 1
    int top_k;        // experts that a token meets, 1 to expert_count
    int expert_width; // of the MLP of one expert; 0: hidden_width / top_k, which costs a token as
                      // much as the dense MLP
    double balance;   // coefficient of the balance loss, >= 0; 0 leaves the router alone
    int sinkhorn_rounds; // of S-BASE, see exec_routing; 0: token choice
    int expert_parallel; // ranks that share the experts of a block, of as many replicas; divides
                         // expert_count; 0: 1. Device cpu only
} exec_moe_options;

enum { EXEC_EXPERT_WIDTH_MAX = 1 << 16, EXEC_SINKHORN_ROUNDS_MAX = 1000 };

/// Block-sparse attention by hashing: whether rows are sorted by their buckets, or queries and keys
/// have buckets of their own.
typedef enum exec_row_order {
    EXEC_ROWS_SORTED,
    EXEC_ROWS_AS_TEXT,
    EXEC_ROW_ORDER_COUNT
} exec_row_order;

typedef struct exec_sparse_attention_options {
    int order;       // exec_row_order
    int bit_count;   // random projections; 2^bit_count buckets, 1 to EXEC_HASH_BITS_MAX
    double affinity; // of EXEC_ROWS_AS_TEXT: blocks meet where their pairs of a query and a key in
                     // one bucket are at least affinity times as many as if all buckets were
                     // equally full; 0: all meet
    int block_rows;  // 16, 32 or 64 rows; 0: as dense attention does
} exec_sparse_attention_options;
