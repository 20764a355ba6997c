/// Charges what was idle in front of ops, and plays what was recorded again.
#pragma once

#include "traces/import/import_kineto.h"

/// An op is charged for the time in front of it in which its rank stood still and that no other
/// rank explains: the result that it needs was there already. Then fills import->replay.
///
/// @param windows [op_count] of import->ops, in the recordings
/// Time O(op_count log op_count).
void trace_import_replay(trace_import *import, trace_window **windows);

enum { TRACE_REPLAYED_ITERATIONS_MAX = 64 };

/// Plays the first TRACE_REPLAYED_ITERATIONS_MAX iterations of the ops that a store holds of a
/// trace: replayed_ns with each op's wall time, compute_ns with its busy time.
///
/// @param replay out: recorded_ns 0 where there are no ops. Gaps within ops are "host", those
///               between them "waiting" until another rank's result is there, from then on
///               "exposed communication", and "host" where it was there already
status trace_replay_of_store(trace_store *store, const trace_info *info, trace_replay *replay,
                             error_message *err);
