/// How long collectives take: closed formulas in the links of one rank, for plans and cost models.
///
/// Every rank sends and receives at once, over a link of its own. A step of a ring or of a pairwise
/// exchange costs the latency and the bytes of the step over the link (bal_link_transfer_ns).
/// Everything saturates at INT64_MAX / 4; a group of one rank takes no time.
#pragma once

#include "balance/machine.h"

#include <stdint.h>

/// Ranks that take part in a collective, and how they stand on nodes.
typedef struct bal_group {
    int rank_count;      // >= 1
    int node_rank_count; // of them on one node, in [1, rank_count]; the last node may hold fewer
    bal_link intra_node;
    bal_link inter_node;
} bal_group;

/// Gathers `bytes`, of which each of the n ranks holds its n-th part at first, by rings: n - 1
/// steps of bytes / n on one node, or with a rank per node. With r ranks on each of k nodes, ranks
/// of the same place gather bytes / r between the nodes, then the node gathers all of it.
///
/// @param bytes of the whole result, >= 0
/// Source: ring algorithms, Patarasuk & Yuan, JPDC 69 (2009); Thakur, Rabenseifner & Gropp, IJHPCA
/// 19 (2005), section 4.1; one ring per level, as in Cho et al., BlueConnect, MLSys 2019.
int64_t bal_group_all_gather_ns(const bal_group *group, int64_t bytes);

/// Sums `bytes` that every rank holds and leaves each its n-th part: as long as the gather, for
/// adding is free beside the links.
int64_t bal_group_reduce_scatter_ns(const bal_group *group, int64_t bytes);

/// Sums `bytes` that every rank holds and leaves all of it everywhere: both of the above.
int64_t bal_group_all_reduce_ns(const bal_group *group, int64_t bytes);

/// Every rank sends its n-th part of `bytes` to each other rank, one after the other: n - 1 steps
/// of bytes / n, of which r - 1 stay on the node.
///
/// Source: pairwise exchange, Thakur et al., section 4.2.
int64_t bal_group_all_to_all_ns(const bal_group *group, int64_t bytes);

/// One step of a ring in which every rank hands `bytes` to the next: the slowest link that the ring
/// crosses; 0 for one rank.
int64_t bal_group_ring_step_ns(const bal_group *group, int64_t bytes);

/// Time to reduce the gradients of every layer between its replicas, an all-reduce each: what
/// bal_layer_costs.reduction_ns holds.
///
/// @param parameters     [layer_count] of one rank, >= 0
/// @param gradient_bytes of one parameter, >= 0
/// @param reduction_ns   [layer_count] out
void bal_gradient_reductions_ns(const int64_t *parameters, int layer_count, int gradient_bytes,
                                const bal_group *replicas, int64_t *reduction_ns);
