/// What shorter ops and links would be worth.
#pragma once

#include "balance/schedule/schedule.h"
#include "balance/stage_costs.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// What an iteration would be shorter by if something took 1 % less: its order is played again. A
/// cost of 1 % is a whole number of ns, so very short ops and messages count as 0.
typedef struct ana_sensitivity {
    int stage_count;
    int64_t *stage_ns; // [stage_count] all ops of the stage
    int64_t *link_ns;  // [stage_count] messages between stage s and s + 1, both ways; last: 0
    int64_t kind_ns[OP_KIND_COUNT]; // all ops of a kind; BW is B and W together
    int64_t all_ops_ns;
    int64_t all_links_ns;
} ana_sensitivity;

/// @param schedule    the order that is played
/// @param sensitivity out: arrays are carved from memory
/// @return what sim_order_compile and sim_costs_check refuse; STATUS_NO_MEMORY.
///         Time O(stage_count * ops).
status ana_sensitivity_of(const bal_schedule *schedule, const bal_stage_costs *costs,
                          bool post_validation, arena *memory, ana_sensitivity *sensitivity,
                          error_message *err);
