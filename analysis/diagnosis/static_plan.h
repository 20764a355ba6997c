/// The plan that is best kept over a whole run: the least sum, over the iterations, of the slowest
/// stage. Unlike one iteration's plan it is no chain to be cut: which stage is slowest changes.
#pragma once

#include "analysis/diagnosis/iteration_series.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Improves a plan until moving no single cut by one layer makes it better, or flatter; where there
/// are few plans, all of them are tried.
///
/// @param first_layer [stage_count + 1] in: a plan without empty stages; out: the best one found
/// @param sum_ns      out: its bottleneck, added up over the series
/// @param is_optimal  out: all plans were tried
/// @return STATUS_NO_MEMORY
///
/// Time O(iterations x stages) for each step.
void ana_static_plan_improve(const ana_series *series, int stage_count, arena *memory,
                             int *first_layer, int64_t *sum_ns, bool *is_optimal);
