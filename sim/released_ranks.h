/// What becomes of the ranks that a re-packed pipeline releases: idle GPUs, or further replicas.
#pragma once

#include "balance/layer_costs.h"
#include "balance/machine.h"
#include "balance/partition/placed_partition.h"
#include "balance/repack/repack.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// The GPUs of a run under one plan.
typedef struct sim_gpu_use {
    bal_gpu_account account;
    int replica_count; // D, and the further ones that released ranks make
    int played_count;  // microbatches of the replica with the most
} sim_gpu_use;

/// Counts them. Under `replicate` what is left over counts as idle, and no node as free: the ranks
/// of further replicas may be anywhere.
///
/// @param layout           of the start
/// @param microbatch_count of each of the layout's replicas
/// @return what bal_gpu_account_of and bal_replication_of refuse
status sim_gpu_use_of(const bal_gpu_layout *layout, bal_released_use use,
                      const bal_placed_partition *plan, int microbatch_count, arena *scratch,
                      sim_gpu_use *out, error_message *err);

/// Time to make `further` replicas of `replica_count`: each sends all state of its layers, place by
/// place and layer by layer, over links between nodes to one new replica at a time. Saturates at
/// INT64_MAX / 4.
int64_t sim_replication_ns(const bal_machine *machine, const bal_layer_costs *layers,
                           const bal_placed_partition *plan, int replica_count, int further);
