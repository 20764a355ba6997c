/// Contiguous plans that minimise the difference of the largest and the smallest stage load, beside
/// those that minimise the largest: the two that the DynMo paper's Lemma 1 takes for one.
///
/// Stages are equal, none is empty, layers are not pinned and memory has no part.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// All plans of a small instance at a glance.
typedef struct ana_range_plans {
    int64_t range;          // smallest (largest - smallest load)
    int64_t range_load_min; // smallest and largest "largest load" of the plans with that range
    int64_t range_load_max;
    int64_t optimum;       // smallest largest load of any plan
    int64_t optimum_range; // largest range of a plan with that largest load
} ana_range_plans;

/// Tries every plan.
///
/// @param weight [layer_count] >= 0; layer_count >= stage_count >= 1 (asserted)
/// @param first  [stage_count + 1] scratch; then the first plan, in dictionary order, with range
///               and range_load_min
///
/// Time O(number of plans * stage_count).
ana_range_plans ana_range_enumerate(const int64_t *weight, int layer_count, int stage_count,
                                    int *first);

/// The smallest range of any plan, and of the plans that have it the smallest largest load.
///
/// @param upper_range the range of some plan: a better one is looked for
/// @param memory      for scratch
/// @param work_max    additions at the most; more: is_exact is false and the rest untouched
/// @return STATUS_NO_MEMORY
///
/// Time O(sums of runs of layers within upper_range of the mean * stage_count * layer_count).
void ana_range_smallest(const int64_t *weight, int layer_count, int stage_count,
                        int64_t upper_range, double work_max, arena *memory, int64_t *range,
                        int64_t *load_max, bool *is_exact);
