/// What plans take on the loads of `dynmo plan`, and the best of a framework's schedules.
#pragma once

#include "balance/partition/balancer.h"
#include "balance/plan.h"
#include "balance/problem.h"
#include "base/arena.h"
#include "base/status.h"
#include "cli/command.h"

/// Asks a balancer; `makespan` plays its candidates by the static engine.
///
/// @param schedule of the plays; NULL: nothing is played
/// @param answer   carved from memory
/// @return what bal_balance says, or building and playing the schedule
status cli_plan_decide(const bal_balancer *balancer, const char *schedule, bal_problem *problem,
                       arena *memory, bal_answer *answer, error_message *err);

typedef struct cli_plan_best {
    const char *schedule; // NULL: none of them can be
    int chunk_count;
    int stage_count;
    const int *first_layer; // [stage_count + 1]
    int64_t makespan_ns;    // of it; -1: none
    int64_t plan_ns;        // of the plan that it stands beside
} cli_plan_best;

/// The best split by `makespan` with up to 8 chunks per rank, beside a plan for as many ranks and
/// microbatches. Costs are those of --loads or --trace, of which one is given.
///
/// @param schedule_of names the schedule that is played with so many chunks
/// @param best carved from memory
/// @return what reading the costs says; STATUS_INVALID: they are of another number of layers
status cli_plan_best_of(const cli_arguments *arguments, const bal_plan *plan,
                        const char *(*schedule_of)(int chunk_count), arena *memory,
                        cli_plan_best *best, error_message *err);
