/// A copy of what layers cost, to tell whether they still cost the same.
#pragma once

#include "balance/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

/// Zero-initialise; release with bal_costs_copy_free.
typedef struct bal_costs_copy {
    arena *memory;
    bool is_taken;
    bal_layer_costs layers; // its arrays are the copy's own
} bal_costs_copy;

/// Copies all arrays. STATUS_NO_MEMORY.
status bal_costs_copy_take(bal_costs_copy *copy, const bal_layer_costs *layers);

/// Whether a copy is taken and all its numbers are those of layers.
bool bal_costs_copy_equals(const bal_costs_copy *copy, const bal_layer_costs *layers);

void bal_costs_copy_free(bal_costs_copy *copy);
