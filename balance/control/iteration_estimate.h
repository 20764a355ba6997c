/// About how long an iteration takes under a plan, where playing it would be too slow: from the
/// loads of the stages and the filling of the pipeline alone.
///
/// With f and c the forward and the whole time of a microbatch on a rank, and M microbatches:
///
///     gpipe                  sum f + (M - 1) max f + sum b + (M - 1) max b,  b = c - f
///     with a backward split  max over ranks of (f of the ranks before + M c)
///     without one            max over ranks of (c of the ranks before + M c)
///
/// The ranks before a rank are those that its first microbatch passes, each with its first chunk.
/// Messages, the room for activations and the difference between microbatches are not counted, so
/// that it is exact for gpipe with free links and a lower bound for all others.
/// Source: theory of flow shops for gpipe; else what fills before a rank begins, and under 1F1B
/// empties after it, and its own work, none of which overlaps.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/costs/placement.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Layer times as prefix sums: what the estimates of many plans share.
typedef struct bal_layer_sums {
    int layer_count;
    int64_t *forward_before; // [layer_count + 1] F of the layers in front
    int64_t *time_before;    // [layer_count + 1] F + B + W of the layers in front
} bal_layer_sums;

/// Carves the arrays from memory.
void bal_layer_sums_init(bal_layer_sums *sums, int layer_count, arena *memory);

/// Sums up. times must have the same layer_count and be as bal_layer_times_fill leaves them: the
/// sums then fit.
void bal_layer_sums_fill(bal_layer_sums *sums, const bal_layer_times *times);

/// The estimate.
///
/// @return saturates at INT64_MAX / 4. Time O(stages), no allocation.
int64_t bal_iteration_estimate_ns(const bal_layer_sums *sums, const bal_placed_partition *plan,
                                  const bal_schedule_family *family, int microbatch_count);
