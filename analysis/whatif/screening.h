/// Which points of a study are worth drawing: chosen by their times with the inputs as they are.
#pragma once

#include "analysis/whatif/uncertainty.h"
#include "analysis/whatif/whatif.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// With a calibration, at most so many of the best points by the cost model are looked at.
enum { ANA_CALIBRATED_CANDIDATES_MAX = 1000 };

typedef struct ana_screening {
    int64_t *items; // [count] of the study
    int64_t count;
    int64_t candidate_count; // of the training of the reference, each unlike the others
    double next_ratio;       // how far behind the best the best is that was not chosen; INFINITY:
                             // all were
} ana_screening;

/// Chooses the first `detail` points by the study's objective, as many others of the Pareto set,
/// and the reference, unless one of these is like it; all of the training of the reference.
///
/// With a calibration the times are at its level, point by point (calibrated.h): the cost model
/// alone may be off by more than points differ.
///
/// @param study finished
/// @return as ana_calibrated_add_point; STATUS_NO_MEMORY
status ana_screening_find(const ana_whatif *study, const ana_uncertainty *uncertainty,
                          arena *memory, ana_screening *screening, error_message *err);
