/// What was recorded, played again.
#pragma once

#include "base/status.h"
#include "traces/store/store.h"
#include "traces/store/writer.h"

#include <stdint.h>

/// What was recorded beside what becomes of it when the ops are played in their recorded order,
/// each for what it is charged, after the op before it on its rank and the op whose result it
/// needs.
typedef struct trace_replay {
    int iteration_count; // that were replayed
    int64_t recorded_ns; // sum over iterations, of each from the first begin to the last end of its
                         // ranks
    int64_t replayed_ns;
    int64_t charges_ns; // replayed without what is outside ops and without messages
    int64_t compute_ns; // replayed with compute alone: gaps neither charged nor kept
    int64_t rank_ns;    // recorded, sum over ranks: what the two below are parts of
    int64_t charged_ns[TRACE_GAP_COUNT];
    int64_t outside_ns[TRACE_GAP_COUNT];
} trace_replay;

enum { TRACE_REPLAYED_ITERATIONS_MAX = 64 };

/// Plays the first TRACE_REPLAYED_ITERATIONS_MAX iterations of the ops that a store holds of a
/// trace: replayed_ns with each op's wall time and what lies between ops, charges_ns with their
/// wall time, compute_ns with their busy time alone.
///
/// @param replay out: recorded_ns 0 where there are no ops. Gaps within ops are "host", those
///               between them "waiting" until another rank's result is there, from then on
///               "exposed communication", and "host" where it was there already
status trace_replay_of_store(trace_store *store, int64_t trace_id, trace_replay *replay,
                             error_message *err);

/// Notes in a trace that an iteration lasts longer than its ops: TRACE_NOTE_OUTSIDE. Nothing where
/// none was replayed.
status trace_replay_put_outside(const trace_replay *replay, trace_writer *writer,
                                error_message *err);
