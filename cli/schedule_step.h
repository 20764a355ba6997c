/// `dynmo schedule --step`: how often an iteration can begin anew, with a barrier at the
/// optimizer's step or with post-validation.
#pragma once

#include "balance/schedule.h"
#include "balance/stage_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "cli/command.h"

#include <stdint.h>

/// What came of it.
typedef struct cli_schedule_step {
    const char *name; // NULL: not asked
    int64_t period_ns;
} cli_schedule_step;

/// Plays iterations back to back (sim/iterations.h) until all ranks begin the next one equally
/// later, or 24 of them: the step itself takes no time, and a norm as long as a message. Static
/// policy, asynchronous messages.
///
/// @param costs ones that sim_costs_check accepts
/// @return STATUS_INVALID for an unknown name, an order that cannot validate behind the step, or
///         costs of more than INT64_MAX / 64 ns; STATUS_NO_MEMORY
status cli_schedule_step_play(const cli_arguments *arguments, const bal_schedule *schedule,
                              const bal_stage_costs *costs, arena *memory, cli_schedule_step *step,
                              error_message *err);
