/// The layers of a problem as the joint search sees them: what any run of them costs on any rank,
/// from prefix sums.
#pragma once

#include "balance/costs/placement.h"
#include "balance/problem.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Where the chunks of the ranks stand.
typedef struct bal_joint_shape {
    int chunk_count; // 1 or 2
    bal_placement placement;
} bal_joint_shape;

/// Arrays of stages in the problem have one entry per rank here, however many chunks it holds: a
/// fixed time is that of the rank's first chunk, a memory cap that of all its chunks.
typedef struct bal_joint_layers {
    int layer_count;
    int rank_count;
    int microbatch_count;
    bool has_split;                // false: B is the full backward and there is no W
    bool first_stage_whole;        // its B is the full backward, as bal_stage_costs_join_first says
    const int64_t *forward_before; // [layer_count + 1] ns of the layers in front, one microbatch
    const int64_t *input_before;   // [layer_count + 1]
    const int64_t *weight_before;  // [layer_count + 1]
    const int64_t *state_before;   // [layer_count + 1] bytes
    const int64_t *held_before;    // [layer_count + 1] bytes held from F to B, one microbatch
    const int64_t *gradient_before; // [layer_count + 1] bytes held from B to W
    const int64_t *transfer_ns;     // [layer_count] or NULL: of its output to another rank
    const int64_t *memory_bytes;    // [rank_count]; INT64_MAX / 4: no cap
    const int64_t *time_factor_ppb; // [rank_count] or NULL: 1 each
    const int64_t *fixed_ns;        // [rank_count] or NULL: 0 each
    int64_t transfer_min_ns;        // of any cut between two layers
    int64_t time_factor_min_ppb;    // of any rank
} bal_joint_layers;

/// What one microbatch costs a run of layers on a rank.
typedef struct bal_joint_cost {
    int64_t forward_ns;
    int64_t input_ns;
    int64_t weight_ns;
    int64_t state_bytes;
    int64_t held_bytes;     // from F to B
    int64_t gradient_bytes; // from B to W; no more than held_bytes where it is not known
} bal_joint_cost;

/// Checks a problem and sums it up. Where gradient_bytes is not known, activations are held until
/// W; times that vary by microbatch count with their mean.
///
/// @param layers arrays are carved from memory or borrowed from problem
/// @return STATUS_INVALID: what bal_chain_of refuses; microbatch_count < 1; empty stages or
///         in-flight counts, which the search decides itself; more than BAL_OPS_MAX ops of two
///         chunks per rank; an iteration whose ops and messages
///         together take longer than INT64_MAX / 4 ns or hold more bytes
status bal_joint_layers_of(const bal_problem *problem, arena *memory, bal_joint_layers *layers,
                           error_message *err);

/// Layers [begin, end) as chunk of rank; all 0 for an empty run.
bal_joint_cost bal_joint_cost_of(const bal_joint_layers *layers, int rank, int chunk, int begin,
                                 int end);
