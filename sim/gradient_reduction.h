/// When the gradients of a pipeline are reduced between its replicas: per rank, layer after layer.
#pragma once

#include "balance/layer_costs.h"
#include "balance/placed_partition.h"
#include "balance/training.h"
#include "sim/order_book.h"

#include <stdint.h>

/// Raises the times at which the gradients of layers are ready to those of one more replica.
///
/// @param layers           of the replica
/// @param stage_end_ns     [stage_count] end of the op with the stage's last gradients
/// @param rank_time_factor [rank of the machine] or NULL: the op is as much slower
/// @param ready_ns         [layer_count] in and out
void sim_reduction_note_ready(bal_reduction_overlap overlap, const sim_compiled_order *order,
                              const bal_placed_partition *plan, const bal_layer_costs *layers,
                              const int64_t *stage_end_ns, const double *rank_time_factor,
                              int64_t *ready_ns);

/// When a place has reduced the gradients of its layers: chunk by chunk as they end, the last layer
/// of each first, none before it is ready.
///
/// @param reduction_ns [layer_count], of sum <= INT64_MAX / 4
/// @param ready_ns     [layer_count] or NULL: all at 0
/// @return 0 for a place without layers
int64_t sim_reduction_end_ns(const sim_compiled_order *order, const bal_placed_partition *plan,
                             int place, const int64_t *reduction_ns, const int64_t *ready_ns);
