/// In which order a schedule adds up the gradients of the weights.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/status.h"

/// Checks that W (or BW) of every stage runs in ascending microbatches. Sums of floats depend on
/// their order; with this one the gradients have the same bits under every schedule. All families
/// of balance/schedule/schedule.h keep to it; an order written by hand may not.
///
/// @return STATUS_INVALID naming stage and ops. Time O(ops).
status exec_weight_order_check(const bal_schedule *schedule, error_message *err);
