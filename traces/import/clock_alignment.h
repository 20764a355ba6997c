/// The clocks of the ranks of one run, brought together by the messages that they sent.
///
/// A message cannot arrive before it left. Each gives a bound on the difference of two clocks; the
/// bounds of both directions leave an interval. Every rank's offset is the middle of what all
/// chains of messages to and from the first rank leave, which satisfies all of them.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/writer.h"

#include <stdint.h>

/// Clocks that drift contradict the messages of a long trace a little; above that, they are not
/// messages of one run.
#define TRACE_CONTRADICTION_MAX_NS INT64_C(10000000)

/// What the messages from one rank to another leave.
typedef struct trace_message_bound {
    int from; // places in the list of ranks
    int to;
    int64_t least_ns; // smallest (arrival - departure), each on its own clock
} trace_message_bound;

typedef struct trace_alignment {
    int rank_count;
    int bound_count;
    trace_message_bound *bounds; // [bound_count] by from, to
    int64_t *offset_ns;          // [rank_count] to add to the rank's clock; 0 for the first
    int64_t *residual_ns;        // [rank_count] half the width of the interval; -1: not bounded on
                                 // both sides, offset is then the nearest to 0
    int64_t contradiction_ns;    // by which messages had to be taken for faster; 0: none
} trace_alignment;

/// @param ops [op_count] on the ranks' own clocks, by iteration, in any order; ranks are places
///            in the list of ranks
/// @param memory    of the alignment's arrays
/// @param alignment untouched on failure
/// @return STATUS_INVALID naming the ranks: the messages contradict each other
///
/// A message goes from the F of a layer to the F of the next on another rank, and from a B (or
/// BW) to the one of the layer before. It leaves at the end of the one op, or at the begin of its
/// SEND where that is recorded and later, and arrives by the begin of the other.
/// Time O(op_count log op_count + ranks * bounds).
status trace_alignment_find(const trace_op *ops, int64_t op_count, int rank_count, arena *memory,
                            trace_alignment *alignment, error_message *err);
