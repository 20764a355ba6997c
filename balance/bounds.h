/// Proven lower bounds: what no plan and no schedule can beat.
#pragma once

#include "balance/partition/chain.h"
#include "balance/stage_costs.h"

#include <stdint.h>

/// The largest load of a rank, all its chunks together, is never below this, whichever rank owns
/// which layer, in any order and with empty ranks: the smallest load at which the ranks together
/// could take all weights if layers were divisible, and at which every layer alone fits the load of
/// some rank. With equal ranks that is max(ceil(total / ranks), largest layer). Memory caps and
/// transfers are not counted.
///
/// Time O(log(largest load) * stage_count + layer_count * stage_count).
int64_t bal_assignment_lower_bound(const bal_chain *chain);

/// Its two parts. The load of a layer alone on the rank where that is least, in O(stage_count); and
/// the smallest load, not below least, at which the ranks could take all weights if layers were
/// divisible, of which only the total is read. Time O(log(largest load) * stage_count).
int64_t bal_layer_load_min(const bal_chain *chain, int layer);
int64_t bal_divisible_lower_bound(const bal_chain *chain, int64_t least);

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
