/// What the balancer `diffusion` does with a chain.
#pragma once

#include "balance/partition/chain.h"
#include "base/arena.h"
#include "base/status.h"

/// Rounds the flow that balances a chain of divisible load to the nearest cuts, then moves single
/// layers across cuts while the larger of two loads falls: steps that look at neighbours only.
///
/// @param first_layer [stage_count + 1] out
/// @return STATUS_INFEASIBLE as bal_partition_latest
status bal_diffusion_cuts(const bal_chain *chain, arena *memory, int *first_layer,
                          error_message *err);
