/// Replays a study under each of its balancers and puts the outcomes side by side.
#pragma once

#include "analysis/compare/comparison.h"
#include "analysis/study/setup.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Where rows, iterations and timelines go while they are played. Any function may be NULL.
typedef struct ana_listener {
    /// Told before a row is played; the context is the sink's.
    status (*begin_row)(void *context, const ana_balancing *balancing, error_message *err);
    bal_record_sink sink;

    /// Told of every iteration that is replayed, for a row or for what a row is compared with.
    void (*step)(void *context);
    void *step_context;
} ana_listener;

/// Iterations that ana_compare will replay: how often step is told, if every row fits.
int64_t ana_compare_iteration_count(const ana_setup *setup);

/// Replays every row, and beside them what they are compared with:
/// - a row that decides from profiles, unless the study has no "foresight", also with perfect
///   foresight
/// - a row that re-packs also without
/// - where a row is dynamic, `even` and `tuned` if they are no rows, and `even` without the study's
///   case of dynamism
/// An infeasible row is an outcome, not a failure.
///
/// @param listener   NULL: nobody
/// @param comparison arrays are carved from memory
/// @return what the replay, the source or the listener returns; STATUS_INFEASIBLE if no row fits.
status ana_compare(const ana_setup *setup, const ana_listener *listener, arena *memory,
                   ana_comparison *comparison, error_message *err);
