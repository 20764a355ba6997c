/// When the gradients of a pipeline are reduced between its replicas: per rank, layer after layer.
#pragma once

#include "balance/layer_costs.h"
#include "balance/partition/placed_partition.h"
#include "balance/run/training.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Finds the op with the last gradients of every stage: its last W or BW.
///
/// @param last_backward out: [stage_count] indices into schedule->ops, carved from memory
/// @return STATUS_NO_MEMORY. Time O(ops).
void bal_last_backwards(const bal_schedule *schedule, arena *memory, const int **last_backward);

/// How long every layer's gradients take to be reduced: the largest over the replicas, which reduce
/// together, and further ones with them.
///
/// @param replicas     [replica_count], of the same layers
/// @param from, to     replicas that the costs' reductions are among, and those that there are, as
///                     in bal_repack_reduction_ns; both 0: as they are
/// @param reduction_ns out: [layer_count] carved from memory; NULL where no replica has any
/// @return STATUS_INVALID if their sum exceeds INT64_MAX / 4; STATUS_NO_MEMORY
status bal_reduction_merge(const bal_layer_costs *replicas, int replica_count, int from, int to,
                           arena *memory, const int64_t **reduction_ns, error_message *err);

/// Raises the times at which the gradients of layers are ready to those of one more replica.
///
/// @param last_backward    [stage_count] of bal_last_backwards, for schedule
/// @param layers           of the replica
/// @param stage_end_ns     [stage_count] end of the op with the stage's last gradients
/// @param rank_time_factor [rank of the machine] or NULL: the op is as much slower
/// @param ready_ns         [layer_count] in and out
void bal_reduction_note_ready(bal_reduction_overlap overlap, const bal_schedule *schedule,
                              const int *last_backward, const bal_placed_partition *plan,
                              const bal_layer_costs *layers, const int64_t *stage_end_ns,
                              const double *rank_time_factor, int64_t *ready_ns);

/// When a place has reduced the gradients of its layers: chunk by chunk as they end, the last layer
/// of each first, none before it is ready.
///
/// @param last_backward [stage_count] of bal_last_backwards
/// @param reduction_ns  [layer_count], of sum <= INT64_MAX / 4
/// @param ready_ns      [layer_count] or NULL: all at 0
/// @return 0 for a place without layers
int64_t bal_reduction_end_ns(const int *last_backward, const bal_placed_partition *plan, int place,
                             const int64_t *reduction_ns, const int64_t *ready_ns);
