/// What a choice costs that follows predictions: of the runs that train the same model with the
/// same global batch on as many GPUs, the one predicted fastest, against the one measured fastest.
#pragma once

#include "analysis/calibration/run_shape.h"
#include "base/arena.h"
#include "base/status.h"

/// Regret is the measured time of the choice over the best measured time, less 1. Groups with one
/// run have nothing to choose and do not count; all numbers are 0 where there is no other.
typedef struct ana_decision {
    int group_count;
    int run_count;      // in these groups
    double best_share;  // of groups where the choice was the best
    double regret_mean; // over groups
    double regret_max;
    double blind_mean; // regret of a choice at random, mean over groups
} ana_decision;

/// Scores the choices.
///
/// @param shapes       [run_count]
/// @param measured_ms  [run_count] > 0
/// @param predicted_ms [run_count]; of equal ones the first is chosen
/// @return STATUS_NO_MEMORY
/// Time O(run_count * log(run_count)).
void ana_decision_score(const ana_run_shape *shapes, const double *measured_ms,
                        const double *predicted_ms, int run_count, arena *memory,
                        ana_decision *out);
