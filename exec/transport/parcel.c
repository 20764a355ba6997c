#include "exec/transport/parcel.h"
#include "base/arena.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void exec_parcel_free(exec_parcel *parcel)
{
    free(parcel->bytes);
    *parcel = (exec_parcel){0};
}

void exec_parcel_reset(exec_parcel *parcel)
{
    parcel->byte_count = 0;
    parcel->taken_bytes = 0;
}

static int64_t padded(int64_t byte_count)
{
    return (byte_count + 7) / 8 * 8;
}

/// Makes room for so many bytes in all; those that are in stay.
static void reserve(exec_parcel *parcel, int64_t byte_count)
{
    if (byte_count <= parcel->capacity_bytes) return;
    const int64_t doubled = parcel->capacity_bytes * 2;
    const int64_t capacity = byte_count > doubled ? byte_count : doubled;
    unsigned char *larger = memory_resize(parcel->bytes, (size_t)capacity, 1);
    parcel->bytes = larger;
    parcel->capacity_bytes = capacity;
}

void *exec_parcel_room(exec_parcel *parcel, int64_t byte_count)
{
    const int64_t end = parcel->byte_count + padded(byte_count);
    reserve(parcel, end);
    if (end > parcel->byte_count) memset(parcel->bytes + end - 8, 0, 8);
    void *room = parcel->bytes + parcel->byte_count;
    parcel->byte_count = end;
    return room;
}

void exec_parcel_put(exec_parcel *parcel, const void *bytes, int64_t byte_count)
{
    if (byte_count > 0) memcpy(exec_parcel_room(parcel, byte_count), bytes, (size_t)byte_count);
}

const void *exec_parcel_take(exec_parcel *parcel, int64_t byte_count)
{
    const void *taken = parcel->bytes + parcel->taken_bytes;
    assert(byte_count >= 0 && padded(byte_count) <= parcel->byte_count - parcel->taken_bytes);
    parcel->taken_bytes += padded(byte_count);
    return taken;
}

exec_parcel exec_parcel_of(void *bytes, int64_t byte_count)
{
    return (exec_parcel){.bytes = bytes, .byte_count = byte_count};
}

status exec_parcel_share(const exec_group *group, exec_parcel *parcel, error_message *err)
{
    int64_t byte_count = parcel->byte_count;
    TRY(exec_group_broadcast(group, &byte_count, (int64_t)sizeof byte_count, err));
    reserve(parcel, byte_count);
    parcel->byte_count = byte_count;
    parcel->taken_bytes = 0;
    return byte_count > 0 ? exec_group_broadcast(group, parcel->bytes, byte_count, err) : STATUS_OK;
}

/// A parcel travels as two messages: its size, since the receiver needs room, and its bytes.
enum { PART_SIZE, PART_BYTES };

status exec_parcel_send(exec_endpoint *endpoint, int to, exec_message_kind kind, int sequence,
                        const exec_parcel *parcel, error_message *err)
{
    const exec_message size = {.key = exec_message_key(kind, sequence, 0, PART_SIZE),
                               .value = {parcel->byte_count}};
    const exec_message body = {.key = exec_message_key(kind, sequence, 0, PART_BYTES),
                               .payload_bytes = parcel->byte_count};
    TRY(endpoint->transport->send(endpoint, to, &size, NULL, err));
    return endpoint->transport->send(endpoint, to, &body, parcel->bytes, err);
}

status exec_parcel_receive(exec_endpoint *endpoint, int from, exec_message_kind kind, int sequence,
                           exec_parcel *parcel, error_message *err)
{
    const exec_transport *transport = endpoint->transport;
    exec_message head;
    TRY(transport->receive(endpoint, from, exec_message_key(kind, sequence, 0, PART_SIZE), &head,
                           NULL, 0, err));
    reserve(parcel, head.value[0]);
    parcel->byte_count = head.value[0];
    parcel->taken_bytes = 0;
    return transport->receive(endpoint, from, exec_message_key(kind, sequence, 0, PART_BYTES),
                              &head, parcel->bytes, parcel->byte_count, err);
}
