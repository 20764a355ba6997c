/// Proven lower bounds of an iteration: what no order of ops beats.
#pragma once

#include "balance/costs/stage_costs.h"

#include <stdint.h>

/// No order of ops on the ranks has a smaller makespan: first op begin to last op end of one
/// iteration. The largest over ranks and microbatches of
///   - the first F that can reach a rank, then all its work;
///   - the same, then F and B of the rank only, then the gradient of the last B back to stage 0;
///   - one microbatch's way: F through all stages, B back to a stage, its W there.
/// where what comes before and after a rank takes, at every stage, its shortest microbatch.
///
/// Assumes: an op runs without a break on one rank, one op at a time (overlapped ops of the
/// schedules that have them may beat the first two by what they overlap); messages take at least
/// the sends in costs; memory, contention and the reduction of gradients cost nothing. Where
/// backward_weight_ns is 0 throughout, backward_input_ns is the full backward.
///
/// @param costs [rank_count * chunk_count] stages in model order; 1 or microbatch_count columns
/// @return saturates at INT64_MAX. Time O(stages * microbatch_count).
int64_t bal_makespan_lower_bound_ns(const bal_stage_costs *costs, int rank_count, int chunk_count,
                                    bal_placement placement, int microbatch_count);

/// The same for the span: no rank is done, counted from its own first op, before its work is done,
/// nor before one microbatch has gone from the rank's first stage to the last and back.
int64_t bal_span_lower_bound_ns(const bal_stage_costs *costs, int rank_count, int chunk_count,
                                bal_placement placement, int microbatch_count);
