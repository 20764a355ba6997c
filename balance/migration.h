/// Layers that change their rank between two plans: which, how many bytes, how long on the links.
#pragma once

#include "balance/layer_costs.h"
#include "balance/machine.h"
#include "balance/placed_partition.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// The layers that move, in model order. The arrays are carved from the arena.
typedef struct bal_migration {
    int layer_count;
    const int *layer; // [layer_count]
    const int *from;  // [layer_count] rank
    const int *to;    // [layer_count] rank
    int64_t bytes;    // state_bytes of all of them; 0 where not known
    int64_t time_ns;  // see below
} bal_migration;

/// Compares two plans of the same layers.
///
/// The time assumes that every rank handles its layers one after another, one message per layer
/// with all its state, and that a layer occupies both of its ranks for latency + bytes / bandwidth
/// of the link between them. No rank can then be done before the sum of its incoming and outgoing
/// transfers, and time_ns is the largest such sum. Links between different pairs of ranks do not
/// share bandwidth, and training stands still meanwhile.
///
/// @param machine at least as many ranks as either plan has; NULL: time_ns is 0
/// @return STATUS_INVALID if the plans end at different layers, a plan has more ranks than the
///         machine, or a sum does not fit int64; STATUS_NO_MEMORY.
///
/// Time O(layers + ranks).
status bal_migration_between(const bal_placed_partition *from, const bal_placed_partition *to,
                             const bal_layer_costs *layers, const bal_machine *machine,
                             arena *memory, bal_migration *out, error_message *err);
