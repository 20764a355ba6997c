/// The machine that a plan runs on: ranks, nodes, links and memory.
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
} bal_machine;

/// Whether messages are asynchronous and delay nobody else.
bool bal_machine_network_is_free(const bal_machine *machine);

/// Time until bytes that leave now are at the other end: latency + bytes / bytes_per_s, rounded
/// up; 0 bytes still pay the latency. Saturates at INT64_MAX / 4.
int64_t bal_link_transfer_ns(bal_link link, int64_t bytes);

/// The link between two different ranks of the machine.
bal_link bal_machine_link(const bal_machine *machine, int rank, int other_rank);
