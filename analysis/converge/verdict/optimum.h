/// What guarantees are measured against: the best that any assignment of layers to ranks could do,
/// and the contiguous plans with the smallest difference of the largest and the smallest stage load
/// beside those with the smallest largest load: the two that the DynMo paper's Lemma 1 takes for
/// one.
#pragma once

#include "analysis/converge/verdict/layer_instance.h"
#include "base/arena.h"
#include "base/status.h"

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

/// All plans of a small instance at a glance. Stages are equal, none is empty, layers are not
/// pinned and memory has no part.
typedef struct ana_range_plans {
    int64_t range;          // smallest (largest - smallest load)
    int64_t range_load_min; // smallest "largest load" of the plans with that range
    int64_t optimum;        // smallest largest load of any plan
    int64_t optimum_range;  // largest range of a plan with that largest load
} ana_range_plans;

enum { ANA_RANGE_STAGES_MAX = 64 };

/// Tries every plan, of at most ANA_RANGE_STAGES_MAX stages (asserted).
///
/// @param weight [layer_count] >= 0; layer_count >= stage_count >= 1 (asserted)
/// @param first  [stage_count + 1] scratch; then the first plan, in dictionary order, with range
///               and range_load_min
///
/// Time O(number of plans * stage_count).
ana_range_plans ana_range_enumerate(const int64_t *weight, int layer_count, int stage_count,
                                    int *first);
