#include "exec/transport/group.h"

#include "base/arena.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/// What tells the messages of one collective apart.
enum { PART_UP, PART_DOWN, PART_SIZE, PART_BYTES };

static uint64_t key_of(const exec_group *group, int sequence, int part)
{
    return exec_message_key(EXEC_MESSAGE_GROUP, sequence, group->channel, part);
}

/// The number of this collective.
static int next_sequence(const exec_group *group)
{
    const int sequence = *group->sequence;
    *group->sequence = sequence < INT32_MAX ? sequence + 1 : 0;
    return sequence;
}

static status send_bytes(const exec_group *group, int to, uint64_t key, const void *bytes,
                         int64_t byte_count, error_message *err)
{
    const exec_message head = {.key = key, .payload_bytes = byte_count};
    exec_endpoint *endpoint = group->endpoint;
    return endpoint->transport->send(endpoint, group->rank[to], &head, bytes, err);
}

/// Receives exactly byte_count bytes.
static status receive_message(const exec_group *group, int from, uint64_t key, exec_message *head,
                              void *bytes, int64_t byte_count, error_message *err)
{
    exec_endpoint *endpoint = group->endpoint;
    TRY(endpoint->transport->receive(endpoint, group->rank[from], key, head, bytes, byte_count,
                                     err));
    if (head->payload_bytes == byte_count) return STATUS_OK;
    return error_set(err, STATUS_BACKEND,
                     "rank %d takes part in a collective with %" PRId64
                     " bytes, others with %" PRId64,
                     group->rank[from], head->payload_bytes, byte_count);
}

static status receive_bytes(const exec_group *group, int from, uint64_t key, void *bytes,
                            int64_t byte_count, error_message *err)
{
    exec_message head;
    return receive_message(group, from, key, &head, bytes, byte_count, err);
}

static status broadcast(const exec_group *group, int sequence, void *bytes, int64_t byte_count,
                        error_message *err)
{
    const uint64_t key = key_of(group, sequence, PART_DOWN);
    if (group->self > 0) return receive_bytes(group, 0, key, bytes, byte_count, err);
    for (int rank = 1; rank < group->rank_count; rank++) {
        TRY(send_bytes(group, rank, key, bytes, byte_count, err));
    }
    return STATUS_OK;
}

status exec_group_barrier(const exec_group *group, error_message *err)
{
    const int sequence = next_sequence(group);
    const uint64_t key = key_of(group, sequence, PART_UP);
    if (group->self > 0) TRY(send_bytes(group, 0, key, NULL, 0, err));
    for (int rank = 1; rank < group->rank_count && group->self == 0; rank++) {
        TRY(receive_bytes(group, rank, key, NULL, 0, err));
    }
    return broadcast(group, sequence, NULL, 0, err);
}

status exec_group_broadcast(const exec_group *group, void *bytes, int64_t byte_count,
                            error_message *err)
{
    return broadcast(group, next_sequence(group), bytes, byte_count, err);
}

/// What the root does: learns the sizes, then takes the bytes of the others after its own.
static status gather_at_root(const exec_group *group, int sequence, const void *bytes,
                             int64_t byte_count, arena *memory, int64_t *sizes, void **out,
                             error_message *err)
{
    int64_t total = byte_count;
    sizes[0] = byte_count;
    for (int rank = 1; rank < group->rank_count; rank++) {
        TRY(receive_bytes(group, rank, key_of(group, sequence, PART_SIZE), &sizes[rank],
                          sizeof *sizes, err));
        total += sizes[rank];
    }
    char *at = arena_array(memory, (size_t)total, 1);
    *out = at;
    if (byte_count > 0) memcpy(at, bytes, (size_t)byte_count);
    for (int rank = 1; rank < group->rank_count; rank++) {
        at += sizes[rank - 1];
        if (sizes[rank] == 0) continue;
        TRY(receive_bytes(group, rank, key_of(group, sequence, PART_BYTES), at, sizes[rank], err));
    }
    return STATUS_OK;
}

status exec_group_gather(const exec_group *group, const void *bytes, int64_t byte_count,
                         arena *memory, int64_t *sizes, void **out, error_message *err)
{
    const int sequence = next_sequence(group);
    if (group->self == 0) {
        return gather_at_root(group, sequence, bytes, byte_count, memory, sizes, out, err);
    }
    TRY(send_bytes(group, 0, key_of(group, sequence, PART_SIZE), &byte_count, sizeof byte_count,
                   err));
    if (byte_count == 0) return STATUS_OK;
    return send_bytes(group, 0, key_of(group, sequence, PART_BYTES), bytes, byte_count, err);
}

status exec_group_exchange(const exec_group *group, const exec_group_part *sent,
                           const exec_group_part *received, int64_t *ready_ns, error_message *err)
{
    const uint64_t key = key_of(group, next_sequence(group), PART_BYTES);
    exec_endpoint *endpoint = group->endpoint;
    for (int rank = 0; rank < group->rank_count; rank++) {
        const exec_message head = {
            .key = key, .ready_ns = *ready_ns, .payload_bytes = sent[rank].byte_count};
        if (rank == group->self) continue;
        TRY(endpoint->transport->send(endpoint, group->rank[rank], &head, sent[rank].bytes, err));
    }
    const exec_group_part own = sent[group->self];
    void *kept = received[group->self].bytes;
    if (own.byte_count > 0 && own.bytes != kept) memcpy(kept, own.bytes, (size_t)own.byte_count);
    for (int rank = 0; rank < group->rank_count; rank++) {
        exec_message head;
        if (rank == group->self) continue;
        TRY(receive_message(group, rank, key, &head, received[rank].bytes,
                            received[rank].byte_count, err));
        if (head.ready_ns > *ready_ns) *ready_ns = head.ready_ns;
    }
    return STATUS_OK;
}

/// How the elements of an array are added: to[i] += other[i].
typedef struct element {
    size_t bytes;
    void (*add)(void *restrict to, const void *restrict other, int64_t count);
} element;

static void add_floats(void *restrict to, const void *restrict other, int64_t count)
{
    float *restrict sum = to;
    const float *restrict values = other;
    for (int64_t index = 0; index < count; index++) {
        sum[index] += values[index];
    }
}

static void add_doubles(void *restrict to, const void *restrict other, int64_t count)
{
    double *restrict sum = to;
    const double *restrict values = other;
    for (int64_t index = 0; index < count; index++) {
        sum[index] += values[index];
    }
}

static void add_int64s(void *restrict to, const void *restrict other, int64_t count)
{
    int64_t *restrict sum = to;
    const int64_t *restrict values = other;
    for (int64_t index = 0; index < count; index++) {
        sum[index] += values[index];
    }
}

/// The root adds the arrays of the others to its own, in the order of ranks, and tells the result.
static status sum_elements(const exec_group *group, const element *of, void *values, int64_t count,
                           int part_count, error_message *err)
{
    const int sequence = next_sequence(group);
    const uint64_t key = key_of(group, sequence, PART_UP);
    const int64_t byte_count = count * (int64_t)of->bytes;
    status result = STATUS_OK;
    if (count == 0 || (group->rank_count == 1 && part_count == 1)) return STATUS_OK;
    if (group->self > 0) {
        TRY(send_bytes(group, 0, key, values, part_count * byte_count, err));
        return broadcast(group, sequence, values, byte_count, err);
    }
    char *received = memory_array((size_t)(part_count * count), of->bytes);
    for (int rank = 0; rank < group->rank_count && result == STATUS_OK; rank++) {
        char *parts = rank == 0 ? values : received;
        if (rank > 0) {
            result = receive_bytes(group, rank, key, parts, part_count * byte_count, err);
        }
        for (int part = rank == 0; part < part_count && result == STATUS_OK; part++) {
            of->add(values, parts + part * byte_count, count);
        }
    }
    free(received);
    return result == STATUS_OK ? broadcast(group, sequence, values, byte_count, err) : result;
}

status exec_group_sum_float(const exec_group *group, float *values, int64_t count, int part_count,
                            error_message *err)
{
    const element of = {sizeof *values, add_floats};
    return sum_elements(group, &of, values, count, part_count, err);
}

status exec_group_sum_double(const exec_group *group, double *values, int64_t count,
                             error_message *err)
{
    const element of = {sizeof *values, add_doubles};
    return sum_elements(group, &of, values, count, 1, err);
}

status exec_group_sum_int64(const exec_group *group, int64_t *values, int64_t count,
                            error_message *err)
{
    const element of = {sizeof *values, add_int64s};
    return sum_elements(group, &of, values, count, 1, err);
}

status exec_group_sum_begin(const exec_group *group, float *values, int64_t count,
                            exec_group_sum *sum, error_message *err)
{
    *sum = (exec_group_sum){.group = group,
                            .values = values,
                            .count = count,
                            .sequence = next_sequence(group),
                            .next = 1,
                            .is_done = count == 0 || group->rank_count == 1};
    if (sum->is_done || group->self == 0) return STATUS_OK;
    return send_bytes(group, 0, key_of(group, sum->sequence, PART_UP), values,
                      count * (int64_t)sizeof *values, err);
}

/// Takes the values of the next rank, or the sum from the root.
static status take_values(exec_group_sum *sum, int from, int part, error_message *err)
{
    const exec_group *group = sum->group;
    const uint64_t key = key_of(group, sum->sequence, part);
    const int64_t byte_count = sum->count * (int64_t)sizeof *sum->values;
    if (part == PART_DOWN) return receive_bytes(group, from, key, sum->values, byte_count, err);
    float *received = memory_array((size_t)sum->count, sizeof *received);
    const status result = receive_bytes(group, from, key, received, byte_count, err);
    if (result == STATUS_OK) add_floats(sum->values, received, sum->count);
    free(received);
    return result;
}

status exec_group_sum_advance(exec_group_sum *sum, bool waits, error_message *err)
{
    const exec_group *group = sum->group;
    const bool is_root = group->self == 0;
    const int part = is_root ? PART_UP : PART_DOWN;
    while (!sum->is_done) {
        const int from = is_root ? sum->next : 0;
        exec_endpoint *endpoint = group->endpoint;
        if (!waits && !endpoint->transport->is_there(endpoint, group->rank[from],
                                                     key_of(group, sum->sequence, part), NULL)) {
            return STATUS_OK;
        }
        TRY(take_values(sum, from, part, err));
        sum->is_done = !is_root || ++sum->next == group->rank_count;
        if (!is_root || !sum->is_done) continue;
        TRY(broadcast(group, sum->sequence, sum->values, sum->count * (int64_t)sizeof *sum->values,
                      err));
    }
    return STATUS_OK;
}

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
enum { PACKET_SIZE, PACKET_BYTES };

status exec_packet_send(exec_endpoint *endpoint, int to, exec_message_kind kind, int sequence,
                        const exec_packet *packet, error_message *err)
{
    const exec_message size = {.key = exec_message_key(kind, sequence, 0, PACKET_SIZE),
                               .value = {packet->byte_count}};
    const exec_message body = {.key = exec_message_key(kind, sequence, 0, PACKET_BYTES),
                               .payload_bytes = packet->byte_count};
    TRY(endpoint->transport->send(endpoint, to, &size, NULL, err));
    return endpoint->transport->send(endpoint, to, &body, packet->bytes, err);
}

status exec_packet_receive(exec_endpoint *endpoint, int from, exec_message_kind kind, int sequence,
                           exec_packet *packet, error_message *err)
{
    const exec_transport *transport = endpoint->transport;
    exec_message head;
    TRY(transport->receive(endpoint, from, exec_message_key(kind, sequence, 0, PACKET_SIZE), &head,
                           NULL, 0, err));
    reserve(packet, head.value[0]);
    packet->byte_count = head.value[0];
    packet->taken_bytes = 0;
    return transport->receive(endpoint, from, exec_message_key(kind, sequence, 0, PACKET_BYTES),
                              &head, packet->bytes, packet->byte_count, err);
}
