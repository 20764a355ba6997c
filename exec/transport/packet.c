#include "exec/transport/packet.h"
#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void exec_packet_free(exec_packet *packet)
{
    free(packet->bytes);
    *packet = (exec_packet){0};
}

void exec_packet_reset(exec_packet *packet)
{
    packet->byte_count = 0;
    packet->taken_bytes = 0;
}

static int64_t padded(int64_t byte_count)
{
    return (byte_count + 7) / 8 * 8;
}

/// Makes room for so many bytes in all; those that are in stay.
static void reserve(exec_packet *packet, int64_t byte_count)
{
    if (byte_count <= packet->capacity_bytes) return;
    const int64_t doubled = packet->capacity_bytes * 2;
    const int64_t capacity = byte_count > doubled ? byte_count : doubled;
    unsigned char *larger = memory_resize(packet->bytes, (size_t)capacity, 1);
    packet->bytes = larger;
    packet->capacity_bytes = capacity;
}

void *exec_packet_room(exec_packet *packet, int64_t byte_count)
{
    const int64_t end = packet->byte_count + padded(byte_count);
    reserve(packet, end);
    if (end > packet->byte_count) memset(packet->bytes + end - 8, 0, 8);
    void *room = packet->bytes + packet->byte_count;
    packet->byte_count = end;
    return room;
}

void exec_packet_put(exec_packet *packet, const void *bytes, int64_t byte_count)
{
    if (byte_count > 0) memcpy(exec_packet_room(packet, byte_count), bytes, (size_t)byte_count);
}

const void *exec_packet_take(exec_packet *packet, int64_t byte_count)
{
    const void *taken = packet->bytes + packet->taken_bytes;
    assert(byte_count >= 0 && padded(byte_count) <= packet->byte_count - packet->taken_bytes);
    packet->taken_bytes += padded(byte_count);
    return taken;
}

status exec_packet_share(const exec_group *group, exec_packet *packet, error_message *err)
{
    int64_t byte_count = packet->byte_count;
    TRY(exec_group_broadcast(group, &byte_count, sizeof byte_count, err));
    reserve(packet, byte_count);
    packet->byte_count = byte_count;
    packet->taken_bytes = 0;
    return byte_count > 0 ? exec_group_broadcast(group, packet->bytes, byte_count, err) : STATUS_OK;
}

/// A packet travels as two messages: its size, since the receiver needs room, and its bytes.
enum { PART_SIZE, PART_BYTES };

status exec_packet_send(exec_endpoint *endpoint, int to, exec_message_kind kind, int sequence,
                        const exec_packet *packet, error_message *err)
{
    const exec_message size = {.key = exec_message_key(kind, sequence, 0, PART_SIZE),
                               .value = {packet->byte_count}};
    const exec_message body = {.key = exec_message_key(kind, sequence, 0, PART_BYTES),
                               .payload_bytes = packet->byte_count};
    TRY(endpoint->transport->send(endpoint, to, &size, NULL, err));
    return endpoint->transport->send(endpoint, to, &body, packet->bytes, err);
}

status exec_packet_receive(exec_endpoint *endpoint, int from, exec_message_kind kind, int sequence,
                           exec_packet *packet, error_message *err)
{
    const exec_transport *transport = endpoint->transport;
    exec_message head;
    TRY(transport->receive(endpoint, from, exec_message_key(kind, sequence, 0, PART_SIZE), &head,
                           NULL, 0, err));
    reserve(packet, head.value[0]);
    packet->byte_count = head.value[0];
    packet->taken_bytes = 0;
    return transport->receive(endpoint, from, exec_message_key(kind, sequence, 0, PART_BYTES),
                              &head, packet->bytes, packet->byte_count, err);
}
