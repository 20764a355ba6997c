/// What the plan's pipeline would take if one thing alone were as measured: op times, messages, or
/// the order.
#pragma once

#include "analysis/check/check.h"

/// Relative changes of the makespan. All 0 where the plan's order or op times are not known.
typedef struct ana_check_effects {
    bool is_known;
    double ops;
    double messages;
    double order;
} ana_check_effects;

/// Plays the plan's order with the plan's op times and messages (medians over what was compared),
/// then with each of the three replaced.
///
/// @return STATUS_NO_MEMORY. An order that cannot be played gives no effects, not a failure.
status ana_check_effects_find(const ana_check *check, arena *memory, ana_check_effects *effects);
