/// What the ops of each stage took in one iteration, and how long the messages travelled that ranks
/// waited for: a timeline in a few numbers, for the store and for checks.
#pragma once

#include "balance/timeline.h"
#include "base/arena.h"
#include "traces/store/runs.h"

/// Sums a timeline up.
///
/// A message counts as awaited where the rank had been idle for at least half of its way when it
/// came. Elsewhere the time from the sender's end to the receiver's begin is not how long the
/// message travelled: it lay there while the rank was busy, or overhead is all that was waited for.
///
/// @param iteration stands in the rows
/// @param rows      [*count] out, from memory: a row for each stage and kind that the timeline has,
///                  by stage and kind
/// Time O(ops log ops).
void ana_op_times_of(const bal_timeline *timeline, int iteration, arena *memory,
                     trace_run_op_time **rows, int *count);
