/// Replays a study under each of its balancers and puts the outcomes side by side: for people and
/// for programs.
#pragma once

#include "analysis/compare/course.h"
#include "analysis/compare/splits.h"
#include "analysis/study/setup.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// Where a speed-up comes from, as a product: its factors in the order in which they are applied.
typedef enum ana_factor {
    ANA_FACTOR_ALGORITHM, ///< what the case itself saves or costs, both under `even`
    ANA_FACTOR_STATIC,    ///< the best split for the first iteration instead of `even`
    ANA_FACTOR_DYNAMIC,   ///< the row without re-packing instead of that split
    ANA_FACTOR_REPACK,    ///< the row with re-packing instead of without
    ANA_FACTOR_COUNT
} ana_factor;

/// "algorithm", "static", "dynamic", "repacking".
extern const char *const ana_factor_names[ANA_FACTOR_COUNT];

/// The outcome under one balancer and policy.
typedef struct ana_row {
    const ana_balancing *balancing;
    status outcome; // STATUS_INFEASIBLE: no plan fits; message says why
    char message[256];
    bal_training_result result; // if outcome is STATUS_OK
    ana_course course;
    ana_splits splits;
    int64_t iteration_mean_ns; // total / iterations
    double per_second;         // tokens (or microbatches) per second, all replicas
    double relative_to_even;   // per_second over that of `even`; 0: no such row
    double relative_to_tuned;
    int64_t unpacked_ns;              // without re-packing; 0: it does not re-pack, or no plan fits
    double factors[ANA_FACTOR_COUNT]; // 0: does not apply
    double speed_up; // product of the others, over `even` without the case where that was played,
                     // else over `even`; 0: of a row that keeps its plan
} ana_row;

typedef struct ana_comparison {
    const ana_setup *setup;
    const ana_row *rows;   // [study->balancing_count]
    int64_t still_even_ns; // `even` without the study's case of dynamism; 0: not played
    int64_t even_ns;       // `even` and `tuned`, whether or not they are rows; 0: not played
    int64_t tuned_ns;
} ana_comparison;

/// Where rows, iterations and timelines go while they are played. Any function may be NULL.
typedef struct ana_listener {
    /// Told before a row is played; the context is the sink's.
    status (*begin_row)(void *context, const ana_balancing *balancing, error_message *err);
    bal_record_sink sink;

    void (*step)(void *context); // told of every iteration of a row
    void *step_context;
} ana_listener;

/// Replays every row, and beside them what they are compared with:
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

/// True if the plan of the row may change after the start.
bool ana_balancing_is_dynamic(const ana_balancing *balancing);

/// Derives the mean iteration and the throughput of a row from its result.
void ana_row_rate(ana_row *row, const ana_setup *setup);

/// Appends the comparison as a table for people; ends with the inputs counted by origin.
void ana_comparison_print(const ana_comparison *comparison, text_buffer *out);

/// Appends the comparison as one JSON object ("dynmo-simulation/1").
void ana_comparison_write(const ana_comparison *comparison, text_buffer *out);
