/// What overlapping an F and a B is worth: shorter costs for the overlapped pairs of an order.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

/// Whether some ops of an order are an overlapped pair.
bool bal_schedule_overlaps(const bal_schedule *schedule);

/// Copies the costs with the times of overlapped ops multiplied by ratio and rounded to the nearest
/// ns, for each microbatch on its own: where an op runs is decided by the order.
///
/// @param ratio time of a pair / time of its ops one after the other, in (0, 1]. 1 is what
///              PyTorch's runtime does, which runs them one after the other; DualPipe's kernels
///              hide the messages between experts of one op after the work of the other
/// @param out   times are carved from memory; what else costs has is borrowed
/// @return STATUS_INVALID for another ratio. Time O(stages * microbatches + ops).
status bal_overlap_costs(const bal_schedule *schedule, const bal_stage_costs *costs, double ratio,
                         arena *memory, bal_stage_costs *out, error_message *err);
