/// Profiler traces of one run, one file per rank, brought together and into a store.
#pragma once

#include "base/status.h"
#include "traces/import/clock_alignment.h"
#include "traces/import/import_replay.h"
#include "traces/import/kineto.h"
#include "traces/import/nsys.h"
#include "traces/store/store.h"
#include "traces/store/writer.h"

#include <stdbool.h>
#include <stdint.h>

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
