/// The two sides of `dynmo check`: each a run or a trace in a store, or a plan or study whose run
/// is predicted first.
#pragma once

#include "analysis/check/observed.h"
#include "base/arena.h"
#include "base/status.h"

/// Which run of which file. Strings are borrowed; NULL or 0: not given.
typedef struct cli_check_side {
    const char *option; // "--plan" or "--measured", for messages
    const char *path;   // STORE.db, STORE.db:NAME, PLAN.json or STUDY.json
    const char *row;
    const char *trace; // of a plan or study: where its costs come from
    const char *model;
    const char *hardware;
    int iteration_count; // of a plan or study; 0: its own
} cli_check_side;

/// Reads it.
///
/// @param plan of the other side, for a trace: see ana_observed_read_trace
/// @return what the file's reader refuses, STATUS_INVALID for a plan without costs
status cli_check_side_read(const cli_check_side *side, const bal_plan *plan, arena *memory,
                           ana_observed *observed, error_message *err);

/// Whether it is a recorded trace.
status cli_check_side_is_trace(const cli_check_side *side, arena *memory, bool *is_trace,
                               error_message *err);
