/// What a rank is busy with, so that a message about a failure or a hang can say it.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/status.h"

#include <stdatomic.h>

/// What a rank does that is no op.
typedef enum exec_phase {
    EXEC_PHASE_NONE,
    EXEC_PHASE_START,
    EXEC_PHASE_REDUCTION,
    EXEC_PHASE_UPDATE,
    EXEC_PHASE_REPORT,
    EXEC_PHASE_DECISION,
    EXEC_PHASE_MIGRATION,
    EXEC_PHASE_HASH,
    EXEC_PHASE_RELEASED,
    EXEC_PHASE_COUNT
} exec_phase;

/// Written by its rank, read by others at any time, also by other processes, of two moments at
/// worst. 0: nothing yet.
typedef struct exec_activity {
    _Atomic int what; // a phase, or EXEC_PHASE_COUNT + the kind of an op
    _Atomic int iteration;
    _Atomic int stage;      // of an op
    _Atomic int microbatch; // likewise
} exec_activity;

/// The rank is at an op from now on.
void exec_activity_set_op(exec_activity *activity, int iteration, int stage, bal_op op);

/// The rank is at something else from now on.
void exec_activity_set_phase(exec_activity *activity, int iteration, exec_phase phase);

enum { EXEC_ACTIVITY_BYTES = 96 };

/// Writes "rank 3, iteration 12, F5 of stage 3", "rank 3, iteration 12, migration" or "rank 3".
///
/// @return out
const char *exec_activity_text(const exec_activity *activity, int rank,
                               char out[EXEC_ACTIVITY_BYTES]);

/// Puts that and ": " in front of a message that does not name a rank yet.
void exec_activity_blame(const exec_activity *activity, int rank, status code, error_message *err);
