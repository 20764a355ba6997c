/// What claims are measured against: the best that any assignment of layers to ranks could do, and
/// the contiguous plans with the smallest difference of the largest and the smallest stage load
/// beside those with the smallest largest load: the two that the DynMo paper's Lemma 1 takes for
/// one.
#pragma once

#include "analysis/converge/verdict/layer_instance.h"

#include <stdint.h>

/// The smallest largest load over all assignments within the caps, contiguous or not, by branch and
/// bound: heaviest layer first, the least loaded rank first, cut where the best one found cannot be
/// beaten. At most ANA_ASSIGNED_LAYERS_MAX layers on ANA_SEARCH_STAGES_MAX stages (asserted).
///
/// @param node_max how many layers are placed at the most
/// @return -1 if no assignment keeps the caps, or none was shown to be the best within node_max
int64_t ana_assignment_best(const ana_layer_instance *instance, int64_t node_max);

enum { ANA_ASSIGNED_LAYERS_MAX = 64 };

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

/// Tries every plan, of at most ANA_SEARCH_STAGES_MAX stages (asserted).
///
/// @param weight [layer_count] >= 0; layer_count >= stage_count >= 1 (asserted)
/// @param first  [stage_count + 1] out: the first plan, in dictionary order, with range and
///               range_load_min
ana_range_plans ana_range_enumerate(const int64_t *weight, int layer_count, int stage_count,
                                    int *first);
