/// Ranks that share the experts of a block: expert parallelism. E replicas in a row make a group,
/// in which the ranks of one place have 1/E of the experts of each of their blocks. In F a rank
/// sends the rows of its tokens to whoever has their experts, computes its own experts over the
/// rows of all, and gets back what the others made of its rows; B does the same with gradients.
/// Rows of a rank stay apart from those of another, also in products and in gradients: every sum is
/// the one that the rank would make had it all experts, and has its bits.
///
/// Counts travel through memory of the host. Rows follow what the stream of a GPU has been told:
/// by transfers where the transport moves memory of GPUs, by handovers where it takes these; else
/// the host copies them. Members come to every exchange in one order, so none waits in a circle.
#pragma once

#include "exec/device/device.h"
#include "exec/stopwatch.h"
#include "exec/transport/group.h"

typedef struct exec_expert_exchange {
    int member_count;         // E
    int member;               // this rank: of n experts it has [member n / E, (member + 1) n / E)
    exec_group members;       // of an iteration, as what follows
    exec_group owners;        // ranks that have the same experts
    int *owner_rank;          // [owners.rank_count]
    exec_group_part *parts;   // [2][member_count] scratch: sent, received
    exec_group_part *shown;   // [2][member_count] scratch: what travels through the host of parts
                              // of device memory
    exec_handover *handovers; // [2][member_count] scratch
    exec_transfer *transfers; // [2 * member_count] scratch
    bool hands_over;          // of device memory its description travels
    int sequence;             // of members
    exec_stopwatch *watch;    // of the ops
    const exec_device *device;
    bool composes; // the watch counts the time that the rank computes, so that waits are found by
                   // the nominal clock
} exec_expert_exchange;

/// @param replica    the rank's
/// @param hands_over what travels of device memory may be its description
/// @param watch, device borrowed. Release with exec_expert_exchange_free
exec_expert_exchange exec_expert_exchange_of(int member_count, int replica, exec_stopwatch *watch,
                                             const exec_device *device, bool composes,
                                             bool hands_over);
void exec_expert_exchange_free(exec_expert_exchange *exchange);

/// Finds the others, of which there may be more or fewer since the iteration before.
///
/// @param replicas the rank's place in all replicas, borrowed for the iteration; NULL: it is alone
/// @return STATUS_INVALID where E does not divide the replicas
status exec_expert_exchange_begin(exec_expert_exchange *exchange, const exec_group *replicas,
                                  error_message *err);

/// Whether memory of the kernels goes to other ranks without the host.
bool exec_exchange_is_on_device(const exec_kernels *kernels, const exec_endpoint *endpoint);

/// Tells all members how many rows each has for every expert. The host waits for the others.
///
/// @param count [member_count][expert_count] in: this member's; out: everybody's
status exec_expert_exchange_counts(exec_expert_exchange *exchange, int *count, int expert_count,
                                   error_message *err);

/// Sends rows to every member and receives rows from each, in other memory; both are device memory.
/// Where the host copies them, it waits for what is enqueued.
///
/// @param first_sent     [member_count * stride + 1]: rows of member m from first_sent[m * stride]
///                       to first_sent[(m + 1) * stride] are for it
/// @param first_received likewise of the rows that come from it
status exec_expert_exchange_rows(exec_expert_exchange *exchange, int stride, size_t row_bytes,
                                 const int *first_sent, void *sent, const int *first_received,
                                 void *received, error_message *err);
