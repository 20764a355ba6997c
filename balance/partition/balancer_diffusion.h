/// The steps of the balancer `diffusion`, which look at neighbours only: the balancer takes them
/// over the whole chain, and ranks that know no more than their neighbours can take them too.
#pragma once

#include "balance/partition/chain.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

/// Where the flow that balances a chain of divisible load puts the cut in front of each stage:
/// stages take load in proportion to what they could take within level.
///
/// @param level  bal_assignment_lower_bound; of the chain's weights only their total is read
/// @param target [stage_count + 1] out: sums of weights in front of the cut; below 0 where no stage
///               could take anything
void bal_diffusion_targets(const bal_chain *chain, int64_t level, double *target);

/// The boundary in [low, high] whose sum of weights is nearest to target, the first of equal ones.
/// Of the whole chain where low is 0, or the boundary in front of low is further from it.
int bal_diffusion_nearest_cut(const bal_chain *chain, int low, int high, double target);

/// Moves the cut after stage by step if both of its stages stay allowed and the larger of their
/// loads falls.
///
/// @param first [stage_count + 1] in and out: the cuts of the stage and of the next one are read
/// @param step  1 or -1
/// @return whether it has moved
bool bal_diffusion_shift_cut(const bal_chain *chain, int *first, int stage, int step);

/// How many times the cuts are looked at in turn: every shift lowers the loads, sorted from the
/// largest, in dictionary order, so that it ends; the limit keeps it short where it would end late.
int bal_diffusion_sweep_max(const bal_chain *chain);

/// Takes all steps.
///
/// @param first_layer [stage_count + 1] out
/// @return STATUS_INFEASIBLE as bal_partition_latest
status bal_diffusion_cuts(const bal_chain *chain, arena *memory, int *first_layer,
                          error_message *err);
