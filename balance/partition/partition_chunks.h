/// Cuts a chain for ranks of any number of chunks. Exact for two where messages cost nothing
/// (partition_pairs.h); else a search with a proven bound beside it.
#pragma once

#include "balance/partition/partition_pairs.h"

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
///         found whose ranks keep within their caps; STATUS_NO_MEMORY.
///
/// Time of the search: rounds over all cuts, each try O(chunk_count), or O(rank_count) where it
/// takes load from the busiest rank. At most BAL_CHUNK_STEPS_MAX cuts are moved, and every round
/// but the last moves one.
status bal_partition_chunks(const bal_chain *chain, arena *memory, bal_pairs_plan *plan,
                            error_message *err);
