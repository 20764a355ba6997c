/// Plays candidate plans for `dynmo plan --balancer makespan`.
#pragma once

#include "balance/problem.h"
#include "base/arena.h"

typedef struct cli_plan_player {
    const bal_problem *problem;
    const char *schedule; // a family with one chunk per rank
    arena *scratch;       // reset for every candidate
} cli_plan_player;

/// The evaluator that plays problem's layers, cut as asked, under a schedule of microbatch_count
/// microbatches: makespan of the static order. Times take stage_time_factor and stage_fixed_ns
/// (added to F); messages take transfer_ns both ways, 0 without.
///
/// @param player borrowed as long as the evaluator
bal_evaluator cli_plan_evaluator(cli_plan_player *player);
