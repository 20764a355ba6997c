/// Iterations one behind the other without a barrier: a rank begins with the next one as soon as
/// its own last op has ended.
#pragma once

#include "balance/stage_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/pipeline.h"

#include <stdint.h>

/// What came of a chain.
typedef struct sim_chain {
    int64_t iteration_count;
    int64_t total_ns;          // begin of the first op to end of the last
    int64_t steady_iteration;  // from this one on they repeat; -1: not within iteration_count
    int64_t period_iterations; // so many of them
    int64_t period_ns;         // take so long; 0 if not steady
    int64_t played_count;      // iterations that were played; the rest repeats
} sim_chain;

/// Plays iterations with the same costs until the ranks stand to each other as they stood a few
/// iterations before; from there on everything repeats, since only differences of times matter, and
/// the rest is a multiplication.
///
/// @param costs           ones that sim_costs_check accepts
/// @param iteration_count >= 1
/// @param memory          scratch, and nothing of it is needed behind
/// @return STATUS_INVALID if all iterations together take longer than INT64_MAX / 2 ns;
///         STATUS_NO_MEMORY
///
/// Time O(ops) per iteration that is played.
status sim_chain_play(sim_order *order, const bal_stage_costs *costs, int64_t iteration_count,
                      arena *memory, sim_chain *chain, error_message *err);
