/// Why the ranks of a recorded run were idle: every nanosecond of an iteration by its cause.
#pragma once

#include "base/status.h"
#include "traces/store/writer.h"

#include <stdint.h>

/// A rank's share of one or more iterations. All but device_ns add up to makespan_ns.
typedef struct trace_rank_time {
    int rank;
    int64_t op_ns;            // some op (F, B, W, BW, R) was running: union of the ops
    int64_t warmup_ns;        // before its first op of the iteration
    int64_t cooldown_ns;      // after its last
    int64_t wait_forward_ns;  // the next op was an F whose input was not yet computed
    int64_t wait_gradient_ns; // the same for B and BW
    int64_t communication_ns; // the input was computed, and a message was on its way
    int64_t other_ns;         // neither: launch delays, host work, the schedule's own gaps
    int64_t device_ns;        // sum of the ops' busy time: what is missing to op_ns are gaps
                              // inside ops; -1 if some op does not have it
} trace_rank_time;

typedef struct trace_recorded_timeline {
    int rank_count;
    int iteration_count;
    int64_t makespan_ns;    // first op begin to last op end over all ranks; sum over iterations
    double bubble_ratio;    // 1 - sum of op_ns / (rank_count * makespan_ns)
    trace_rank_time *ranks; // [rank_count] by rank
} trace_recorded_timeline;

/// Splits the idle time of ops, of one or more iterations, on one clock.
///
/// A gap in front of an op whose input comes from another rank is waiting until that input is
/// computed, and from then on communication. Any other gap is communication where a message of the
/// rank (SEND, RECV) lasts, and other where none does.
///
/// @param ops      [op_count] by iteration, rank, begin
/// @return release with trace_recorded_timeline_free; without ops of layers it has no rank
/// Time O(op_count log op_count).
trace_recorded_timeline trace_recorded_timeline_of(const trace_op *ops, int64_t op_count);

/// Adds the iterations of more, which has the same ranks or some of them.
void trace_recorded_timeline_add(trace_recorded_timeline *sum, const trace_recorded_timeline *more);

void trace_recorded_timeline_free(trace_recorded_timeline *timeline); ///< zeroed is allowed
