/// Numbers and arrays in one run of bytes, as one rank hands them to another of the same build.
#pragma once

#include "base/status.h"
#include "exec/transport/group.h"
#include "exec/transport/transport.h"

#include <stdint.h>

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
