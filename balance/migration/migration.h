/// Layers that change their rank between two plans: which, how many bytes, in which order, how long
/// on the links.
///
/// What moves is all state of a layer: weights, gradients, optimizer moments (state_bytes). Between
/// two iterations there are no activations, so nothing else moves, and all memory of a rank is
/// there for state.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/costs/machine.h"
#include "balance/costs/placement.h"
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
/// share bandwidth, and training stands still meanwhile; machine.relaunch_ns comes on top where
/// layers move.
///
/// @param machine at least as many ranks as either plan has; NULL: time_ns is 0
/// @return STATUS_INVALID if the plans end at different layers, a plan has more ranks than the
///         machine, or a sum does not fit int64.
///
/// Time O(layers + ranks).
status bal_migration_between(const bal_placed_partition *from, const bal_placed_partition *to,
                             const bal_layer_costs *layers, const bal_machine *machine,
                             arena *memory, bal_migration *out, error_message *err);

/// Orders the transfers so that no rank ever holds more than machine.rank_memory_bytes (0: no
/// caps): the receiver has memory for the whole layer before it comes, the sender frees its own
/// after it has gone. That holds for the steps one after another, and for ranks that each do their
/// own steps in order. A rank that holds more at the start may only send.
///
/// The search looks one step ahead and is not exhaustive: it may find no order where there is one,
/// and none where a layer would have to make way over a third rank.
///
/// @param from    the plan in force; with migration, all of it; ranks' bytes fit a quarter of int64
/// @param ordered out: the moves in their order
/// @return STATUS_INFEASIBLE naming a layer that cannot go, its bytes, the rank in the way, what it
///         holds and its cap.
///
/// Every step is, of those with room, one whose ranks are free earliest, were all steps equally
/// long; of these one whose busier rank has the most bytes left; then the first in model order.
/// Time O(moves) per step.
status bal_migration_order(const bal_placed_partition *from, const bal_migration *migration,
                           const bal_layer_costs *layers, const bal_machine *machine, arena *memory,
                           bal_migration *ordered, error_message *err);

/// When the last step has ended. Every rank does its steps in order, one at a time; a step takes
/// the time of its link, as in bal_migration.
///
/// @param ordered    by bal_migration_order
/// @param release_ns [machine.rank_count] when each rank takes part at the earliest: overlapped
///                   with the backward sweep, the end of its last op, since before that it holds
///                   activations and computes; NULL: 0, all at once, and the result is how long
///                   training stands still
/// @param finish_ns  out: 0 if nothing moves
/// @return STATUS_INVALID if the time does not fit int64. Time O(moves + ranks).
status bal_migration_finish_ns(const bal_migration *ordered, const bal_layer_costs *layers,
                               const bal_machine *machine, const int64_t *release_ns, arena *memory,
                               int64_t *finish_ns, error_message *err);
