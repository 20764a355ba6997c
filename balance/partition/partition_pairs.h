/// Cuts a chain for ranks of two chunks so that the busiest rank, both of its chunks together, is
/// as fast as possible: exactly, in whole numbers, no tolerance.
///
/// All need a chain of two chunks per rank without transfer_ns (asserted).
#pragma once

#include "balance/partition/chain.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// A plan for ranks of two chunks.
typedef struct bal_pairs_plan {
    int *first_layer;    // [stage_count + 1] carved from the memory given
    int64_t bottleneck;  // the largest load of a rank
    int64_t lower_bound; // proven: no plan under the rules of the chain is below it
} bal_pairs_plan;

/// Minimises the largest load of a rank under the rules of the chain (caps of stages and ranks,
/// pinned layers, empty stages), and of the plans with that load takes a flat one.
///
/// Where stages may be empty lower_bound is the bottleneck always. Where each must own a layer it
/// is too, unless proving it takes more than the limits of pair_rows.h; then it is the optimum
/// with empty stages.
///
/// Under BAL_PLACEMENT_V a probe of one load takes O(rank_count * layer_count * layers per rank),
/// and log2(largest load) probes at the very most are made. Under BAL_PLACEMENT_LOOP the same for
/// each place of the middle, of which few take more than one probe. Ties: with the middle first
/// found (v: any) the smallest sum of the ranks' squared loads, then of the stages'; where that
/// takes more than the limits, the cuts of the first row as far in front as the load allows.
///
/// @return STATUS_INFEASIBLE if no plan keeps the rules, or none was found within the limits, and
///         the message says which.
/// Source: bisection over a frontier of pairs of cuts, derived in BALANCERS.md; the flat
/// plan and stages that must not be empty by the table of pair_rows.h.
status bal_partition_pairs(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                           error_message *err);

/// Every middle of a loop.
enum { BAL_ANY_MIDDLE = -1 };

/// Minimises the bytes of the layers that change their rank among the plans with every rank's load
/// within load_cap.
///
/// @param owner       [layer_count] rank of the machine that holds a layer now
/// @param place_rank  [rank_count] rank of the machine at each place of the pipeline
/// @param middle      loop: the only first layer of the second row to look at, which is quick;
///                    BAL_ANY_MIDDLE: all
/// @param first_layer [stage_count + 1] out, untouched on failure
/// @return STATUS_INFEASIBLE if no plan keeps within load_cap; STATUS_UNSUPPORTED where that takes
///         more than the limits of pair_rows.h, all middles together. Ties:
///         under a loop the first middle, then as bal_pair_table_answer.
status bal_partition_pairs_moved_bytes(const bal_chain *chain, const int *owner,
                                       const int *place_rank, int64_t load_cap, int middle,
                                       arena *memory, int *first_layer, int64_t *moved_bytes,
                                       error_message *err);

enum { BAL_CHUNK_STEPS_MAX = 1 << 12 };

/// Lowers the largest load of a rank under the rules of the chain.
///
/// Two chunks without transfer_ns: as bal_partition_pairs, optimal. One chunk: as
/// bal_partition_bottleneck and bal_partition_flattest, optimal. Otherwise: from the plan with the
/// smallest largest stage, whose ranks cannot take more than chunk_count times that, single cuts
/// are moved by single layers as long as that lowers, in this order, what ranks hold above their
/// caps, the largest load of a rank, and the sum of squared loads. lower_bound is then that of
/// bal_assignment_lower_bound, and the plan is proven optimal only where it meets it.
///
/// @return STATUS_INFEASIBLE if no plan keeps the rules, or with more than two chunks none was
///         found whose ranks keep within their caps.
///
/// Time of the search: rounds over all cuts, each try O(chunk_count), or O(rank_count) where it
/// takes load from the busiest rank. At most BAL_CHUNK_STEPS_MAX cuts are moved, and every round
/// but the last moves one.
status bal_partition_chunks(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                            error_message *err);
