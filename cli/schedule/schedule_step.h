/// `dynmo schedule --step`: how often an iteration can begin anew, with a barrier at the
/// optimizer's step or with post-validation.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "cli/command.h"
#include "sim/network.h"
#include "sim/policy.h"

#include <stdint.h>

/// What is played many times.
typedef struct cli_stepped_schedule {
    const bal_schedule *schedule;
    sim_policy policy;
    const sim_network *network;
    const bal_stage_costs *costs; // ones that sim_costs_check accepts
} cli_stepped_schedule;

/// How often an iteration can begin anew.
typedef struct cli_schedule_step {
    const char *name; // NULL: not asked
    int64_t period_ns;
} cli_schedule_step;

/// Plays iterations back to back (sim_iterations_find_period): the step itself takes no time, and a
/// norm as long as a message. Nothing where --step is not given.
///
/// @param stepped costs are ones that sim_costs_check accepts
/// @return STATUS_UNSUPPORTED for another policy than static and for messages that keep ranks busy
///         or share links; STATUS_INVALID for an unknown name, an order that cannot validate after
///         it the step, or more ns than SIM_ITERATIONS_NS_MAX
status cli_schedule_step_play(const cli_arguments *arguments, const cli_stepped_schedule *stepped,
                              arena *memory, cli_schedule_step *step, error_message *err);
