/// What the layers of all replicas cost, as one cost per layer that the controller sees.
///
/// One plan serves every replica and the slowest makes the iteration: a layer counts with the
/// largest of what it costs in any of them.
#pragma once

#include "balance/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"

/// What is merged. Zero-initialise, then fill by name.
typedef struct bal_replica_costs {
    int iteration;                   // that the messages of errors name
    const bal_layer_costs *replicas; // [replica_count], of the same layers
    int replica_count;
    int column_count; // of the result: 1, for which rows of several columns count with their mean,
                      // or the columns that all replicas have
    const double *rank_time_factor; // [rank of the machine] or NULL: no rank is slow. Of costs that
                                    // were measured on slow ranks NULL, too
    const int *rank_of_layer;       // [layer_count] rank of the machine, or NULL: not placed yet
} bal_replica_costs;

/// Merges them: times are means over the microbatches, rounded to the nearest, made longer by the
/// factor of the rank and at most INT64_MAX / 4 then, the largest over the replicas. Bytes,
/// parameters and reductions are the largest, NULL where no replica knows them; the rest is the
/// first replica's.
///
/// @param merged out: arrays are carved from memory
/// @return STATUS_INVALID if a time is negative or the times of a row do not fit int64;
///         STATUS_NO_MEMORY. Time O(replicas x layers x columns).
status bal_replica_costs_merge(const bal_replica_costs *costs, arena *memory,
                               bal_layer_costs *merged, error_message *err);
