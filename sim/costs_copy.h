/// A copy of what layers cost, to tell whether they still cost the same.
#pragma once

#include "balance/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

/// Zero-initialise; release with sim_costs_copy_free.
typedef struct sim_costs_copy {
    arena *memory;
    bool is_taken;
    bal_layer_costs layers; // its arrays are the copy's own
} sim_costs_copy;

/// Copies all arrays. STATUS_NO_MEMORY.
status sim_costs_copy_take(sim_costs_copy *copy, const bal_layer_costs *layers, error_message *err);

/// Whether a copy is taken and all its numbers are those of layers.
bool sim_costs_copy_equals(const sim_costs_copy *copy, const bal_layer_costs *layers);

void sim_costs_copy_free(sim_costs_copy *copy);
