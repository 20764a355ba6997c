/// The machine that a plan runs on: ranks, nodes, links and memory; and how long collectives take
/// on it, by closed formulas in the links of one rank.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// One direction of a connection.
typedef struct bal_link {
    int64_t latency_ns;
    int64_t bytes_per_s; // 0: free of charge beyond the latency
} bal_link;

/// Whom a message between two ranks occupies.
typedef enum bal_send {
    BAL_SEND_ASYNC,      ///< nobody: it leaves when its op ends, and both ranks go on
    BAL_SEND_BLOCKING,   ///< the sender's rank, until the message has arrived
    BAL_SEND_RENDEZVOUS, ///< both ranks: it begins when the sender's op has ended and the
                         ///< receiver's rank is idle and next runs the op that waits for it
    BAL_SEND_COUNT
} bal_send;

/// "async", "blocking", "rendezvous".
extern const char *const bal_send_names[BAL_SEND_COUNT];

/// @return STATUS_INVALID naming the text and the names. send is then untouched.
status bal_send_parse(const char *name, bal_send *send, error_message *err);

typedef struct bal_machine {
    int rank_count;     // pipeline ranks of one replica
    int ranks_per_node; // consecutive ranks share a node; >= 1
    bal_link intra_node;
    bal_link inter_node;
    int64_t rank_memory_bytes; // of every rank; 0: not limited
    bal_send send;
    bool shares_node_links; // messages that leave a node, of one replica, cross one link of it
    int64_t relaunch_ns; // that all ranks stand still whenever layers move, beside the transfers:
                         // of frameworks that only move them through a checkpoint; >= 0
} bal_machine;

/// Whether messages are asynchronous and delay nobody else.
bool bal_machine_network_is_free(const bal_machine *machine);

/// Time until bytes that leave now are at the other end: latency + bytes / bytes_per_s, rounded
/// up; 0 bytes still pay the latency. Saturates at INT64_MAX / 4.
int64_t bal_link_transfer_ns(bal_link link, int64_t bytes);

/// The link between two different ranks of the machine.
bal_link bal_machine_link(const bal_machine *machine, int rank, int other_rank);

/// Ranks that take part in a collective, and how they stand on nodes.
///
/// In collectives every rank sends and receives at once, over a link of its own. A step of a ring
/// or of a pairwise exchange costs the latency and the bytes of the step over the link
/// (bal_link_transfer_ns). Everything saturates at INT64_MAX / 4; a group of one rank takes no
/// time.
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

/// In collectives every rank sends its n-th part of `bytes` to each other rank, one after the
/// other: n - 1 steps of bytes / n, of which r - 1 stay on the node.
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
