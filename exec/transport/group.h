/// Collectives over messages, and packets of bytes. Sums are added in the order of the ranks, so
/// that their bits do not depend on the transport, on the time at which ranks come, or on how an
/// array is cut.
///
/// All but those of packets between two ranks are collective over the group: its ranks call the
/// same functions in the same order, with the same counts. Arrays are in host memory.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "exec/transport/transport.h"

#include <stdbool.h>
#include <stdint.h>

/// What tells apart the messages of a run's groups: two ranks may be in all of them.
enum {
    EXEC_CHANNEL_WORLD,
    EXEC_CHANNEL_AWAKE,
    EXEC_CHANNEL_PIPELINE,
    EXEC_CHANNEL_REPLICAS,
    EXEC_CHANNEL_EXPERTS
};

/// Some ranks of the world, ascending, the caller among them; the first is the root.
typedef struct exec_group {
    exec_endpoint *endpoint;
    int *rank; // [rank_count] of the world
    int rank_count;
    int self;      // index of the caller in rank
    int *sequence; // number of the caller's next collective, the same on all ranks of the group.
                   // Groups share it where all of their ranks are in both and call in one order
    int channel;   // tells apart groups that share two ranks and not the sequence; small, >= 0
} exec_group;

/// Returns when all ranks have called it.
status exec_group_barrier(const exec_group *group, error_message *err);

/// Gives every rank the bytes of the root.
///
/// @param bytes [byte_count] in at the root, out elsewhere
status exec_group_broadcast(const exec_group *group, void *bytes, int64_t byte_count,
                            error_message *err);

/// Gives the root the bytes of every rank. The byte counts may differ.
///
/// @param sizes [rank_count] out at the root, else NULL: bytes of each rank
/// @param out   out at the root, else NULL: bytes of the ranks in their order, one after the
///              other, carved from memory
status exec_group_gather(const exec_group *group, const void *bytes, int64_t byte_count,
                         arena *memory, int64_t *sizes, void **out, error_message *err);

/// What goes to a rank of a group, or comes from it.
typedef struct exec_group_part {
    void *bytes;
    int64_t byte_count;
} exec_group_part;

/// Gives every rank its part of what each has, the caller its own too.
///
/// @param sent     [rank_count] in
/// @param received [rank_count] out: other memory than sent, but the caller's own may be the same;
///                 of the sizes that the others send
/// @param ready_ns in: when the caller was ready, by a clock that the ranks agree on; out: when the
///                 last of them was
status exec_group_exchange(const exec_group *group, const exec_group_part *sent,
                           const exec_group_part *received, int64_t *ready_ns, error_message *err);

/// Sums arrays element by element: ((r0 + r1) + r2) + ..., the same on every rank of the group. Of
/// floats every rank may have several, one after another: all of the first rank are added in their
/// order, then all of the second. The sum is in the first.
///
/// @param values [count], of floats [part_count][count], in and out. Unspecified on failure
status exec_group_sum_float(const exec_group *group, float *values, int64_t count, int part_count,
                            error_message *err);
status exec_group_sum_double(const exec_group *group, double *values, int64_t count,
                             error_message *err);
status exec_group_sum_int64(const exec_group *group, int64_t *values, int64_t count,
                            error_message *err);

/// A sum of floats that goes on while its ranks do other things. Zero-initialise.
typedef struct exec_group_sum {
    const exec_group *group;
    float
        *values; // [count] in until it begins, out when it is done; the caller's, untouched between
    int64_t count;
    int sequence;
    int next; // root: of the group, whose values come next
    bool is_done;
} exec_group_sum;

/// Begins what exec_group_sum_float does of one part, with its bits. Waits for nobody: who is not
/// the root hands its values over, which are the sum once it is done.
status exec_group_sum_begin(const exec_group *group, float *values, int64_t count,
                            exec_group_sum *sum, error_message *err);

/// Does what can be done now, or with `waits` all that is left.
status exec_group_sum_advance(exec_group_sum *sum, bool waits, error_message *err);

/// Numbers and arrays in one run of bytes, as one rank hands them to another of the same build.
/// What is put in comes out in the same order. Zero-initialise; release with exec_packet_free.
typedef struct exec_packet {
    unsigned char *bytes; // [byte_count], every item padded to a multiple of 8
    int64_t byte_count;
    int64_t capacity_bytes;
    int64_t taken_bytes; // how far it has been read
} exec_packet;

void exec_packet_free(exec_packet *packet);

/// Empties a packet; keeps its memory.
void exec_packet_reset(exec_packet *packet);

/// Puts bytes after those that are in.
void exec_packet_put(exec_packet *packet, const void *bytes, int64_t byte_count);

/// Makes room for so many bytes, which the caller fills before anything else is put in.
///
/// @return aligned for any number
void *exec_packet_room(exec_packet *packet, int64_t byte_count);

/// Takes the next bytes out, as many as were put in at once.
///
/// @return borrowed until the packet is filled anew; aligned for any number
const void *exec_packet_take(exec_packet *packet, int64_t byte_count);

/// Gives every rank of the group the packet of its root. Collective.
status exec_packet_share(const exec_group *group, exec_packet *packet, error_message *err);

/// Sends a packet to one rank, and receives it there.
///
/// @param kind     of the messages; their stage is 0
/// @param sequence number of the packet
status exec_packet_send(exec_endpoint *endpoint, int to, exec_message_kind kind, int sequence,
                        const exec_packet *packet, error_message *err);
status exec_packet_receive(exec_endpoint *endpoint, int from, exec_message_kind kind, int sequence,
                           exec_packet *packet, error_message *err);
