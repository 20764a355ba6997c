/// The second pass over a what-if study: the points that are worth looking at closely, and what the
/// idle time of each is there for.
///
///   choose    when the first pass is finished
///   evaluate  every chosen point, by workers
///   put       the results, in ascending order
#pragma once

#include "analysis/whatif/bubble_causes.h"
#include "analysis/whatif/whatif.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

enum { ANA_CHOSEN_MAX = 1000, ANA_LOOKED_AT_ITERATIONS = 16 };

/// Zero-initialise; arrays are carved from the study's arena.
typedef struct ana_closer_look {
    const ana_whatif *study;
    int64_t *items; // [count] of the study, ascending
    int64_t count;
    ana_bubble_causes *causes; // [count] over ANA_LOOKED_AT_ITERATIONS iterations, evenly spaced
} ana_closer_look;

/// Chooses the best best_count points of each ranking, of points that are alike the first; the
/// reference, if it could be played; and the Pareto set, as far as there is room for it.
///
/// @param best_count in [1, ANA_CHOSEN_MAX / 2)
/// @return STATUS_NO_MEMORY
status ana_closer_look_choose(const ana_whatif *study, int best_count, ana_closer_look *look);

/// What workers do; context is the ana_closer_look, worker an ana_point_worker, index in [0,
/// count).
status ana_closer_look_begin_worker(void *context, void **worker, error_message *err);
void ana_closer_look_end_worker(void *context, void *worker);
status ana_closer_look_evaluate(void *context, void *worker, int64_t index, text_buffer *result,
                                error_message *err);
status ana_closer_look_put(void *context, int64_t index, const text_buffer *result,
                           error_message *err);

/// The causes of an item, or NULL if it is not one of the chosen.
const ana_bubble_causes *ana_closer_look_find(const ana_closer_look *look, int64_t item);
