/// What a disturbance makes of the costs of stages: costs in, costs out, nothing else.
#pragma once

#include "balance/costs/disturbance.h"
#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Which play is disturbed: each has its own draws.
typedef struct sim_perturbed_play {
    int64_t iteration;
    int round;                        // of gradient accumulation, in [0, 1024)
    int replica;                      // in [0, 2^14)
    const bal_placed_partition *plan; // read where links are disturbed: whose ranks
                                      // they are between
} sim_perturbed_play;

/// Disturbs the ops and messages of one play. Slow ranks are not its business
/// (bal_disturbance_slow_ranks): they are in the costs already.
///
/// Every F, B and W takes 1 + op_sigma * z times as long, rounded to the nearest ns, each drawn
/// from the stream of its kind and stage (a BW is its B and its W). A message takes as much longer
/// as its disturbed link says, and on top of that as its own drawn factor says:
///
///     delay = time of its link * (factor - 1), factor normal within [1, message_factor_max]
///
/// Equal arguments give equal bytes, whatever was asked before.
///
/// @param disturbance its numbers within their limits
/// @param schedule    what the costs are of: M, and which rank has which stage
/// @param costs       ones that sim_costs_check accepts
/// @param out         arrays are those of costs where nothing disturbs them, else carved from
///                    memory; columns are M where times are drawn. To be checked again.
/// Time O(stages * microbatches), no random numbers where nothing is drawn.
void sim_perturb(const bal_disturbance *disturbance, const bal_schedule *schedule,
                 const sim_perturbed_play *play, const bal_stage_costs *costs, arena *memory,
                 bal_stage_costs *out);
