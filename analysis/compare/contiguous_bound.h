/// What no contiguous plan and no schedule beats: the bounds of balance/partition/bounds.h,
/// minimised over all plans instead of asked of one.
#pragma once

#include "balance/costs/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

typedef struct ana_contiguous_bound {
    int64_t makespan_ns; // no plan of one stage per rank has a smaller one
    int64_t work_ns;     // F, B and W of all layers and microbatches
    int64_t longest_ns;  // of the layer with most of it
} ana_contiguous_bound;

/// An even share of the reduction of gradients, which no plan does in less on its fullest rank.
int64_t ana_reduction_share_ns(const bal_layer_costs *costs, int rank_count);

/// The smallest, over all contiguous plans with stages that may be empty, of the largest over their
/// stages of
///   - F of one microbatch through the layers in front, then all of the stage's work;
///   - the same, then F and B of the stage only, then B of one microbatch back to the first layer,
/// where what is in front of a stage takes, in each layer, its shortest microbatch.
///
/// Assumes that an op runs without a break on one rank, one op at a time, and that messages, memory
/// and the reduction of gradients cost nothing.
///
/// @param costs            columns are cycled through where there are fewer than microbatches
/// @param microbatch_count M >= 1
/// @param memory           for scratch
/// @return STATUS_INVALID if the work does not fit int64
///
/// Time O(layer_count * (M + rank_count * layer_count)).
status ana_bound_contiguous(const bal_layer_costs *costs, int rank_count, int microbatch_count,
                            arena *memory, ana_contiguous_bound *bound, error_message *err);
