/// Costs with what their source does not know completed by stated assumptions.
#pragma once

#include "balance/costs/machine.h"
#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Plain state in the caller's memory, filled by ana_complete.
typedef struct ana_completion {
    bal_cost_source inner;
    int first_iteration;               // of inner: what the completed source calls iteration 0
    int64_t state_bytes_per_parameter; // where inner has parameters and no bytes of state
    int gradient_bytes_per_parameter;  // where it has parameters and no reductions
    bal_group replicas;                // that reduce gradients; 1 rank: nobody does
    int64_t *state_bytes;              // [layer_count]
    int64_t *reduction_ns;             // [layer_count]
} ana_completion;

/// Completes costs: bytes of state from parameters, reductions from parameters and replicas, and
/// all of the activations as held from B to W. What inner knows stays.
///
/// @param completion filled by name up to replicas; must stay where it is as long as the result
///                   is used
/// @param memory     the arrays are carved from it
/// @param source     out: costs_at returns STATUS_INVALID naming a layer whose parameters are too
///                   many, and what inner returns
void ana_complete(ana_completion *completion, arena *memory, bal_cost_source *source);
