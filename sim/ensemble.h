/// The same chain of iterations many times, each time disturbed by other draws: how long it takes
/// when ops and ranks are now slower and now faster, and how far that goes apart.
#pragma once

#include "balance/disturbance.h"
#include "balance/stage_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/pipeline.h"

#include <stdint.h>

/// What is drawn and played. Zero-initialise, then fill by name.
typedef struct sim_ensemble {
    const sim_order *order;             // other plays of it do not disturb
    const bal_stage_costs *costs;       // ones that sim_costs_check accepts
    const bal_disturbance *disturbance; // one that bal_disturbance_check accepts; each draw has a
                                        // seed of its own, made of this one
    int draw_count;                     // >= 1
    int iteration_count;                // >= 1, one behind the other without a barrier
    // Called, unless NULL, behind every iteration of the draws that are played at once, in all
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
///         than INT64_MAX / 2 ns; STATUS_NO_MEMORY; what step returns
///
/// Time O(draws * iterations * ops). The same seed gives the same totals on every machine, and a
/// draw the same whatever draw_count is.
status sim_ensemble_play(const sim_ensemble *ensemble, arena *memory, int64_t *total_ns,
                         error_message *err);
