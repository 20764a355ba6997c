/// What the iterations of a series take under a plan that is kept, and could take at the least.
#pragma once

#include "analysis/diagnosis/iteration_series.h"
#include "analysis/study/setup.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// The best split that is kept, as far as it is found: the exact contiguous optimum of the layers'
/// mean times, then neighbouring cuts moved as long as the slowest stages' times add up to less.
///
/// @param first_layer [stages + 1] out
/// @return what bal_partition_bottleneck returns
status ana_kept_split_of(const ana_series *series, int stage_count, arena *memory, int *first_layer,
                         error_message *err);

/// Proven: no plan of one contiguous stage per rank has a shorter iteration. Messages and
/// reductions cost nothing, the optimizer step does; where the schedule does not split the
/// backward, B and W are one op.
///
/// @param bound_ns [series->count] out
/// @return what ana_bound_contiguous returns
///
/// Time of ana_bound_contiguous, for every iteration.
status ana_contiguous_bounds_of(const ana_setup *setup, const ana_series *series, int64_t *bound_ns,
                                error_message *err);

/// What iterations take under a plan that is kept, as the schedule plays them.
///
/// @param first_layer [stages + 1]
/// @param taken_ns    [series->count] out
/// @return what the simulator returns
status ana_plan_takes(const ana_setup *setup, const ana_series *series, const int *first_layer,
                      arena *memory, int64_t *taken_ns, error_message *err);
