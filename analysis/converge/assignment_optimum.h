/// The best that any assignment of layers to ranks could do: what guarantees are measured against.
#pragma once

#include "analysis/converge/layer_instance.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ana_assignment_optimum {
    int64_t low;  // no assignment has a smaller largest load
    int64_t high; // the largest load of the best assignment found; low where is_exact
    bool is_exact;
} ana_assignment_optimum;

/// The smallest largest load over all assignments within the caps, contiguous or not, by branch and
/// bound: heaviest layer first, every rank tried that differs in load, memory or cap from those
/// tried before; cut where the best one found cannot be beaten.
///
/// @param node_max how many layers are placed at the most; beyond, is_exact is false and high
///                 the best so far, not above what longest processing time first gives
/// @param memory   for scratch
/// @return STATUS_INFEASIBLE if no assignment keeps the caps, or none was found within node_max
///
/// Time O(node_max * stage_count).
status ana_assignment_search(const ana_layer_instance *instance, int64_t node_max, arena *memory,
                             ana_assignment_optimum *optimum, error_message *err);

/// The smallest phi over all assignments, by trying them all; caps are not looked at.
///
/// Time O(stage_count^layer_count * stage_count): for small instances, at most
/// ANA_SEARCH_LAYERS_MAX layers on ANA_SEARCH_STAGES_MAX stages (asserted).
double ana_assignment_phi_min(const ana_layer_instance *instance);
