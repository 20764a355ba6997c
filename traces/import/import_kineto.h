/// Profiler traces of one run, one file per rank, brought together and into a store.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/import/import_replay.h"
#include "traces/import/kineto.h"
#include "traces/store/store.h"
#include "traces/store/writer.h"

#include <stdbool.h>
#include <stdint.h>

// The clocks of the ranks of one run, brought together by the messages that they sent.
//
// A message cannot arrive before it left. Each gives a bound on the difference of two clocks; the
// bounds of both directions leave an interval. Every rank's offset is the middle of what all
// chains of messages to and from the first rank leave, which satisfies all of them.

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

// Reading, and writing into the store.

typedef struct trace_import {
    const char *recorded_by; // which profiler; static storage
    int rank_count;
    trace_recording *recordings; // [rank_count] by rank
    trace_alignment alignment;   // of the ranks' clocks
    int iteration_count;
    int first_iteration;
    int last_iteration;
    int layer_count;      // that have a load
    int layer_last;       // the largest of them
    int microbatch_count; // the largest + 1
    bool has_full_backward;
    int64_t op_count;
    trace_op *ops; // [op_count] by iteration, rank, begin; on one clock
    trace_replay replay;
} trace_import;

typedef enum trace_profiler { TRACE_PROFILER_KINETO, TRACE_PROFILER_NSYS } trace_profiler;

/// Reads the files and aligns their clocks.
///
/// @param sources [count] a file of Kineto that does not say its rank has that of its source; the
///                processes of exports of Nsight Systems are ranks in the order of the files and
///                of trace_nsys_file
/// @param memory  of everything that the import points to
/// @param import  untouched on failure
/// @return what trace_kineto_read or trace_nsys_read says; STATUS_INVALID naming both files: the
///         same rank twice, different world sizes, different iterations, differently named
///         annotations, a layer and microbatch that two ranks ran; messages that contradict each
///         other by more than TRACE_CONTRADICTION_MAX_NS
status trace_import_read(const trace_profile_source *sources, int count, trace_profiler profiler,
                         arena *memory, trace_import *import, error_message *err);

/// Writes loads, timeline and clocks as one trace and completes it; nothing stays on failure.
///
/// @param info name, tool_version, embedding, head, backward_split and gaps count, the rest comes
///             from the files
/// @param trace_id out, may be NULL
status trace_import_write(const trace_import *import, const trace_info *info, trace_store *store,
                          int64_t *trace_id, error_message *err);

/// An op is charged for the time in front of it in which its rank stood still and that no other
/// rank explains: the result that it needs was there already. Then fills import->replay.
///
/// Ranks of import->ops are places among the recordings here, and their names those of their
/// windows there. Time O(op_count log op_count).
void trace_import_replay(trace_import *import);
