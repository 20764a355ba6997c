/// Replays a study under each of its balancers and puts the outcomes side by side.
#pragma once

#include "analysis/comparison.h"
#include "analysis/setup.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/training.h"

/// Where rows, iterations and timelines go while they are played. Any function may be NULL.
typedef struct ana_listener {
    /// Told before a row is played; the context is the sink's.
    status (*begin_row)(void *context, const ana_balancing *balancing, error_message *err);
    sim_training_sink sink;
} ana_listener;

/// Replays every row. An infeasible row is an outcome, not a failure.
///
/// @param listener   NULL: nobody
/// @param comparison arrays are carved from memory
/// @return what the replay, the source or the listener returns; STATUS_INFEASIBLE if no row fits.
status ana_compare(const ana_setup *setup, const ana_listener *listener, arena *memory,
                   ana_comparison *comparison, error_message *err);
