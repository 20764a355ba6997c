/// What an iteration could take at the least: proven, and with hindsight.
#pragma once

#include "analysis/diagnosis/iteration_series.h"
#include "analysis/study/setup.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Proven: no plan of one contiguous stage per rank has a shorter iteration (contiguous_ns), and no
/// assignment of layers to ranks whatsoever (any_owner_ns). Messages and reductions cost nothing,
/// the optimizer step does; where the schedule does not split the backward, B and W are one op.
///
/// @param contiguous_ns, any_owner_ns [series->count] out
/// @return what ana_bound_contiguous returns
///
/// Time of ana_bound_contiguous, for every iteration.
status ana_gain_bounds_of(const ana_setup *setup, const ana_series *series, int64_t *contiguous_ns,
                          int64_t *any_owner_ns, error_message *err);

/// What iterations take under plans that are given, as the schedule plays them, with moves for
/// nothing.
///
/// @param first_layer [series->count][stages + 1], or [stages + 1] for all of them where is_kept
/// @param taken_ns    [series->count] out
/// @return what the simulator returns
status ana_plans_take(const ana_setup *setup, const ana_series *series, const int *first_layer,
                      bool is_kept, int64_t *taken_ns, error_message *err);

/// With hindsight: what iterations take under the plan that `makespan` chooses for their own costs
/// by playing up to 256 of them, without memory limits and with moves for nothing. Better plans may
/// exist; even these cannot be known beforehand.
///
/// @param indices         [index_count] of the series
/// @param clairvoyant_ns  [index_count] out
/// @return what bal_balance and the simulator return
status ana_clairvoyant_of(const ana_setup *setup, const ana_series *series, const int *indices,
                          int index_count, int64_t *clairvoyant_ns, error_message *err);
