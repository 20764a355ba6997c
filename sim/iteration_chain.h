/// Iterations one after the other without a barrier: a rank begins with the next one as soon as
/// its own last op has ended. Undisturbed; or many times, each disturbed by other draws: how long
/// the chain takes when ops and ranks are now slower and now faster, and how far that goes apart.
#pragma once

#include "balance/costs/disturbance.h"
#include "balance/costs/stage_costs.h"
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
/// @param memory          scratch: nothing of it is needed afterwards
/// @return STATUS_INVALID if all iterations together take longer than INT64_MAX / 2 ns
///
/// Time O(ops) per iteration that is played.
status sim_chain_play(sim_order *order, const bal_stage_costs *costs, int64_t iteration_count,
                      arena *memory, sim_chain *chain, error_message *err);

/// What is drawn and played. Zero-initialise, then fill by name.
typedef struct sim_ensemble {
    const sim_order *order;             // other plays of it do not disturb
    const bal_stage_costs *costs;       // ones that sim_costs_check accepts
    const bal_disturbance *disturbance; // one that bal_disturbance_check accepts; each draw has a
                                        // seed of its own, made of this one
    int draw_count;                     // >= 1
    int iteration_count;                // >= 1, one after the other without a barrier
    // Called, unless NULL, after every iteration of the draws that are played at once, in all
    // iteration_count times sim_ensemble_batch_count. Another status than STATUS_OK ends the play.
    status (*step)(void *context, error_message *err);
    void *context;
} sim_ensemble;

/// How many batches the draws are played in, each as many at once as there are lanes.
int64_t sim_ensemble_batch_count(const sim_ensemble *ensemble);

/// Plays all draws, several at once in the lanes of sim/lanes.h.
///
/// @param memory   scratch of the play
/// @param total_ns [draw_count] out: first op begin to last op end of the whole chain
/// @return STATUS_INVALID where drawn costs are refused by sim_costs_check, or a chain takes longer
///         than INT64_MAX / 2 ns; what step returns
///
/// Time O(draws * iterations * ops). The same seed gives the same totals on every machine, and a
/// draw the same whatever draw_count is.
status sim_ensemble_play(const sim_ensemble *ensemble, arena *memory, int64_t *total_ns,
                         error_message *err);
