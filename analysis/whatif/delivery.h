/// When a training is done, with failures and with everything that is not known.
#pragma once

#include "analysis/whatif/drawn_points.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Of the whole training at one point.
typedef struct ana_delivery_range {
    bool is_known;         // false: nothing was said of failures, or of tokens
    double mtbf_s;         // of all GPUs together, as the study has it
    double interval_s;     // of work between checkpoints, as the study has it
    double middle_s;       // P50
    double late_s;         // P95
    double goodput_ratio;  // time of useful work over all time, P50
    double expected_ratio; // the same, exact, with the inputs as the study has them
    double failure_count;  // expected until P50
} ana_delivery_range;

/// Draws failures for every draw of a point's inputs, several times, so that there are 4,096 runs
/// in all or one per draw; INFINITY where nothing is ever finished. The same random numbers serve
/// all points.
///
/// @param range out: not known where the point's study does not say what fails and how long it is
void ana_delivery_find(const ana_drawn_points *drawn, int point, uint64_t seed, arena *memory,
                       ana_delivery_range *range);
