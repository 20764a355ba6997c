/// Cuts a chain for ranks of several chunks so that the busiest rank, all of its chunks together,
/// is as fast as possible.
#pragma once

#include "balance/partition/chain.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// A plan for ranks of several chunks.
typedef struct bal_pairs_plan {
    int *first_layer;    // [stage_count + 1] carved from the memory given
    int64_t bottleneck;  // the largest load of a rank
    int64_t lower_bound; // proven: no plan under the rules of the chain is below it
} bal_pairs_plan;

/// Minimises the largest load of a rank under the rules of the chain (caps of stages and ranks,
/// pinned layers, empty stages), and of the plans with that load takes a flat one.
///
/// One chunk: as bal_partition_bottleneck and bal_partition_flattest, optimal. Two chunks without
/// transfer_ns: optimal by bisection over a table of pairs of cuts, which near the smallest load
/// leaves few places to the second for each of the first, unless that takes more than 2^21 pairs or
/// 2^28 steps; a loop is asked for each place of the middle between its rows. Ties: with the middle
/// first found, from the half of the weight outwards, the smallest sum of the ranks' squared loads,
/// then of the stages'.
///
/// Otherwise: from the plan with the smallest largest stage, whose ranks cannot take more than
/// chunk_count times that, single cuts are moved by single layers as long as that lowers, in this
/// order, what ranks hold above their caps, the largest load of a rank, and the sum of squared
/// loads, at most 4096 times. lower_bound is then that of bal_assignment_lower_bound, and the plan
/// is proven optimal only where it meets it.
///
/// @return STATUS_INFEASIBLE if no plan keeps the rules, or none was found within the limits, and
///         the message says which.
status bal_partition_chunks(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                            error_message *err);

/// Every middle of a loop.
enum { BAL_ANY_MIDDLE = -1 };

/// Minimises the bytes of the layers that change their rank among the plans with every rank's load
/// within a limit; but for two chunks without transfer_ns with every stage's, as
/// bal_partition_moved_bytes.
///
/// @param owner       [layer_count] rank of the machine that holds a layer now
/// @param place_rank  [rank_count] rank of the machine at each place; NULL: place p is rank p
/// @param middle      two chunks in a loop: the only first layer of the second chunks to look at,
///                    which is quick; BAL_ANY_MIDDLE: all
/// @param first_layer [stage_count + 1] out; after failure its content means nothing
/// @return STATUS_INFEASIBLE if no plan keeps within load; STATUS_UNSUPPORTED where that takes more
///         than the limits above. Ties: the first middle, then the smallest sum of squared loads.
status bal_partition_chunks_moved_bytes(const bal_chain *chain, const int *owner,
                                        const int *place_rank, int64_t load, int middle,
                                        arena *memory, int *first_layer, int64_t *moved_bytes,
                                        error_message *err);
