/// How long one iteration of all replicas took, from what ran when: the pipeline, and the reduction
/// of gradients in which the replicas meet.
///
/// The simulator and the executor come here with begin and end of the ops of each replica, so that
/// both mean the same by the parts of an iteration.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/costs/placement.h"
#include "balance/metrics.h"
#include "balance/run/training.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Finds the op with the last gradients of every stage: its last W or BW.
///
/// @param last_backward out: [stage_count] indices into schedule->ops, carved from memory
/// Time O(ops).
void bal_last_backwards(const bal_schedule *schedule, arena *memory, const int **last_backward);

/// What was played. Borrowed until the iteration is finished.
typedef struct bal_played_plan {
    const bal_placed_partition *plan;
    const bal_schedule *schedule;
    const int *last_backward;        // [stage_count] of bal_last_backwards
    const bal_layer_costs *replicas; // [replica_count] columns: 1, or the schedule's microbatches
    int replica_count;
    const double *rank_time_factor; // [rank of the machine] or NULL: as in bal_stage_costs
    bool post_validation;           // no global barrier: the span counts
    bal_reduction_overlap reduction_overlap;
    int reduction_from; // replicas that the costs' reductions are among, and those that there are,
    int reduction_to;   // as in bal_repack_reduction_ns; both 0: as they are
} bal_played_plan;

/// What came of it. Zero-initialise; filled by the functions below.
typedef struct bal_iteration_times {
    bal_metrics metrics;     // of the slowest replica
    int slowest;             // index of it, the first of several
    int64_t pipeline_ns;     // the longest makespan; with post-validation the longest time of a
                             // place from its first begin in any replica to its last end
    int64_t reduction_ns;    // of the gradients, beyond the pipeline
    int64_t makespan_ns;     // the longest
    int64_t busy_ns;         // op times of all ranks of all replicas
    int64_t *rank_work_ns;   // [plan->rank_count] op times of each place in the slowest
    int64_t *rank_begin_ns;  // [plan->rank_count] first begin in any replica
    int64_t *rank_end_ns;    // [plan->rank_count] last end in any replica
    const int64_t *layer_ns; // [layer_count] its reduction; NULL: nothing is reduced
    int64_t *layer_ready_ns; // [layer_count] from when on; unused where nothing hides it
} bal_iteration_times;

/// What one replica did, all replicas' iterations having begun together. Every rank has played at
/// least one op.
typedef struct bal_replica_times {
    const int64_t *first_begin_ns; // [plan->rank_count]
    const int64_t *last_end_ns;    // [plan->rank_count]
    const int64_t *busy_ns;        // [plan->rank_count] sum of op times
    const int64_t *stage_end_ns;   // [stage_count] end of the op of last_backward; read only where
                                   // bal_iteration_needs_stage_ends says so
} bal_replica_times;

/// @param times out: arrays are carved from memory
/// @return STATUS_INVALID if the reductions of all layers together exceed INT64_MAX / 4
status bal_iteration_begin(const bal_played_plan *played, arena *memory, bal_iteration_times *times,
                           error_message *err);

/// Whether gradients are reduced and something hides that.
bool bal_iteration_needs_stage_ends(const bal_played_plan *played,
                                    const bal_iteration_times *times);

/// Adds the replicas in order, each once.
///
/// @return STATUS_INVALID if the op times of all replicas exceed INT64_MAX / 2
status bal_iteration_add(const bal_played_plan *played, int replica,
                         const bal_replica_times *replica_times, bal_iteration_times *times,
                         error_message *err);

/// The same from begin and end of every op.
///
/// @param timeline of played->schedule
status bal_iteration_add_timeline(const bal_played_plan *played, int replica,
                                  const bal_timeline *timeline, arena *memory,
                                  bal_iteration_times *times, error_message *err);

/// Computes pipeline_ns, reduction_ns and what Equation 1 says of the costs of the slowest replica,
/// the mean over its microbatches, when all replicas have been added.
///
/// @param memory for scratch
void bal_iteration_finish(const bal_played_plan *played, arena *memory, bal_iteration_times *times);
