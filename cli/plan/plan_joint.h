/// `dynmo plan --balancer makespan --schedule any`: partition, placement, schedule and order
/// together.
#pragma once

#include "balance/plan.h"
#include "balance/problem.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/command.h"

/// Searches, has the static engine play what was found, and prints it.
///
/// @param problem layers and ranks; microbatch_count as given
/// @param chunks  0: whichever number is better
/// @param plan    out: what was found, in memory; its stage_ranks are the caller's
/// @return STATUS_INVALID naming an option that does not go with it; what bal_joint_search refuses
status cli_plan_joint(const cli_arguments *arguments, const bal_problem *problem, int chunks,
                      arena *memory, text_buffer *out, bal_plan *plan, error_message *err);
