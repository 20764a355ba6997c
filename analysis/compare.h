/// Replays a study under each of its balancers and puts the outcomes side by side.
#pragma once

#include "analysis/setup.h"
#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "sim/training.h"

#include <stdbool.h>
#include <stdint.h>

/// The outcome under one balancer and policy.
typedef struct ana_row {
    const ana_balancing *balancing;
    status outcome; // STATUS_INFEASIBLE: no plan fits; message says why
    char message[256];
    sim_training_result result; // if outcome is STATUS_OK
    int64_t iteration_mean_ns;  // total / iterations
    double per_second;          // tokens (or microbatches) per second, all replicas
    double relative_to_even;    // per_second over that of `even`; 0: no such row
    double relative_to_tuned;
} ana_row;

typedef struct ana_comparison {
    const ana_setup *setup;
    const ana_row *rows; // [study->balancing_count]
} ana_comparison;

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

/// Appends the comparison as a table for people; ends with the inputs counted by origin.
void ana_comparison_print(const ana_comparison *comparison, text_buffer *out);

/// Appends the comparison as one JSON object ("dynmo-simulation/1").
void ana_comparison_write(const ana_comparison *comparison, text_buffer *out);
