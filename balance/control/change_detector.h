/// Tells changes of the model from noise in its loads.
#pragma once

#include "balance/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Tells which changes of the loads are changes of the model: a recorded trace has noise in every
/// iteration and announces nothing. A layer has changed if its F, B or W begins or ceases to cost
/// nothing, or if its sum differs from its value at the last change by more than change_ratio.
typedef struct bal_change_detector {
    int layer_count;
    double change_ratio; // > 0, for example 0.25
    bool has_reference;
    int64_t *reference_ns; // [layer_count][3] means over the microbatches at the last change
    int64_t *current_ns;   // [layer_count][3]
} bal_change_detector;

/// @param detector arrays are carved from memory
void bal_change_detector_init(bal_change_detector *detector, int layer_count, double change_ratio,
                              arena *memory);

/// Looks at the costs of the next iteration. The first one is no change: the plan of the start was
/// made for it.
///
/// @param layers layer_count as at init
/// @return true if the model has changed since the last change
bool bal_change_detector_observe(bal_change_detector *detector, const bal_layer_costs *layers);
