/// A transport's messages: each arrives under the key and from the rank that it was sent with,
/// whole, of any length, in any number, also where ranks are regrouped in between. Over local and
/// over mpi.
#include "base/arena.h"
#include "base/rng.h"
#include "tests/mpi/world.h"

#include <inttypes.h>
#include <string.h>

enum { MESSAGES = 200 };

static uint64_t key(int microbatch)
{
    return exec_message_key(EXEC_MESSAGE_FORWARD, 7, 3, microbatch);
}

/// Bytes that differ between all messages that are told apart here.
static void fill(uint8_t *bytes, int64_t count, int from, int to, int microbatch)
{
    rng source = rng_init((uint64_t)microbatch, (uint64_t)(from * 1000 + to));
    for (int64_t at = 0; at < count; at += 8) {
        const uint64_t word = rng_next(&source);
        memcpy(bytes + at, &word, count - at < 8 ? (size_t)(count - at) : 8);
    }
}

static status send_filled(exec_endpoint *endpoint, int to, int microbatch, int64_t count,
                          error_message *err)
{
    uint8_t *bytes = memory_array(1, (size_t)count + 1);
    fill(bytes, count, endpoint->rank, to, microbatch);
    const exec_message head = {.key = key(microbatch),
                               .ready_ns = microbatch,
                               .payload_bytes = count,
                               .value = {endpoint->rank, to, count, -1}};
    const status code = endpoint->transport->send(endpoint, to, &head, bytes, err);
    memset(bytes, 0, (size_t)count); // it may be used again
    free(bytes);
    return code;
}

static status compare(exec_endpoint *endpoint, const exec_message *head, const uint8_t *payload,
                      const uint8_t *expected, int from, int microbatch, int64_t count,
                      error_message *err)
{
    if (head->key != key(microbatch) || head->ready_ns != microbatch ||
        head->payload_bytes != count || head->value[0] != from ||
        head->value[1] != endpoint->rank || head->value[2] != count || head->value[3] != -1) {
        return error_set(err, STATUS_BACKEND, "message %d of rank %d has another head", microbatch,
                         from);
    }
    if (count > 0 && memcmp(payload, expected, (size_t)count) != 0) {
        return error_set(err, STATUS_BACKEND,
                         "message %d of rank %d, %" PRId64 " bytes, has another payload",
                         microbatch, from, count);
    }
    return STATUS_OK;
}

static status receive_filled(exec_endpoint *endpoint, int from, int microbatch, int64_t count,
                             error_message *err)
{
    uint8_t *bytes = memory_array(1, 2 * ((size_t)count + 1));
    exec_message head = {0};
    fill(bytes + count, count, from, endpoint->rank, microbatch);
    status code =
        endpoint->transport->receive(endpoint, from, key(microbatch), &head, bytes, count, err);
    if (code == STATUS_OK) {
        code = compare(endpoint, &head, bytes, bytes + count, from, microbatch, count, err);
    }
    free(bytes);
    return code;
}

/// Every rank sends to every rank, itself too, and takes in another order.
static status exchange(exec_endpoint *endpoint, void *context, error_message *err)
{
    (void)context;
    for (int to = 0; to < endpoint->rank_count; to++) {
        for (int index = 0; index < MESSAGES; index++) {
            TRY(send_filled(endpoint, to, index, index, err));
        }
    }
    for (int index = 0; index < MESSAGES; index++) {
        for (int from = endpoint->rank_count - 1; from >= 0; from--) {
            const int asked = (index * 7 + from) % MESSAGES;
            TRY(receive_filled(endpoint, from, asked, asked, err));
        }
    }
    return STATUS_OK;
}

/// Around lines, pages and the length from which MPI asks the receiver first; in both directions at
/// once, and all of them before the first is taken.
static status long_ones(exec_endpoint *endpoint, void *context, error_message *err)
{
    (void)context;
    static const int64_t lengths[] = {0,    1,    63,   64,    65,      4031,    4032,
                                      4033, 4096, 8191, 65536, 1000001, 5000000, 7};
    enum { COUNT = sizeof lengths / sizeof lengths[0] };
    const int next = (endpoint->rank + 1) % endpoint->rank_count;
    const int before = (endpoint->rank + endpoint->rank_count - 1) % endpoint->rank_count;
    for (int index = 0; index < COUNT; index++) {
        TRY(send_filled(endpoint, next, index, lengths[index], err));
        TRY(send_filled(endpoint, before, COUNT + index, lengths[index], err));
    }
    for (int index = COUNT - 1; index >= 0; index--) {
        TRY(receive_filled(endpoint, before, index, lengths[index], err));
        TRY(receive_filled(endpoint, next, COUNT + index, lengths[index], err));
    }
    return STATUS_OK;
}

/// Two of one key arrive in the order of sending; is_there tells without taking.
static status equal_keys(exec_endpoint *endpoint, void *context, error_message *err)
{
    (void)context;
    const exec_transport *transport = endpoint->transport;
    const int to = (endpoint->rank + 1) % endpoint->rank_count;
    const int from = (endpoint->rank + endpoint->rank_count - 1) % endpoint->rank_count;
    for (int64_t number = 0; number < 100; number++) {
        const exec_message head = {.key = key(1), .value = {number}};
        TRY(transport->send(endpoint, to, &head, NULL, err));
    }
    for (int64_t number = 0; number < 100; number++) {
        exec_message head = {.value = {-1}};
        while (!transport->is_there(endpoint, from, key(1), &head)) {
            TRY(transport->sleep_until(endpoint, transport->now_ns(endpoint) + 100000, err));
        }
        if (head.value[0] != number) return error_set(err, STATUS_BACKEND, "out of order");
        TRY(transport->receive(endpoint, from, key(1), &head, NULL, 0, err));
        if (head.value[0] != number) return error_set(err, STATUS_BACKEND, "another was taken");
    }
    if (transport->is_there(endpoint, from, key(1), NULL)) {
        return error_set(err, STATUS_BACKEND, "nothing is left");
    }
    return STATUS_OK;
}

static status sleeps(exec_endpoint *endpoint, void *context, error_message *err)
{
    (void)context;
    const exec_transport *transport = endpoint->transport;
    const int64_t until_ns = transport->now_ns(endpoint) + 250000000;
    TRY(transport->sleep_until(endpoint, until_ns, err));
    if (transport->now_ns(endpoint) < until_ns) {
        return error_set(err, STATUS_BACKEND, "woke too early");
    }
    return transport->sleep_until(endpoint, 0, err);
}

/// A token goes round the active ranks, by messages of ops.
static status go_round(exec_endpoint *endpoint, const int *place, int lap, error_message *err)
{
    const int rank_count = endpoint->rank_count;
    int next = endpoint->rank;
    int before = endpoint->rank;
    do {
        next = (next + 1) % rank_count;
    } while (place[next] < 0);
    do {
        before = (before + rank_count - 1) % rank_count;
    } while (place[before] < 0);
    TRY(send_filled(endpoint, next, lap, 100 * lap, err));
    TRY(receive_filled(endpoint, before, lap, 100 * lap, err));
    return STATUS_OK;
}

/// Groups shrink and grow. A released rank is told by the leader, not by an op.
static status regroups(exec_endpoint *endpoint, void *context, error_message *err)
{
    (void)context;
    const exec_transport *transport = endpoint->transport;
    for (int lap = 0; lap < 12; lap++) {
        int place[64];
        const exec_message order = {.key = exec_message_key(EXEC_MESSAGE_ORDER, lap, 0, 0),
                                    .value = {lap}};
        for (int rank = 0; rank < endpoint->rank_count; rank++) {
            const bool is_in = rank == lap % endpoint->rank_count || (rank * 5 + lap) % 3 > 0;
            place[rank] = is_in ? rank : -1;
        }
        TRY(transport->regroup(endpoint, place, endpoint->rank_count, err));
        if (place[endpoint->rank] >= 0) TRY(go_round(endpoint, place, lap, err));
        for (int rank = 1; endpoint->rank == 0 && rank < endpoint->rank_count; rank++) {
            TRY(transport->send(endpoint, rank, &order, NULL, err));
        }
        exec_message head = order;
        if (endpoint->rank != 0) {
            TRY(transport->receive(endpoint, 0, order.key, &head, NULL, 0, err));
        }
        if (head.value[0] != lap) return error_set(err, STATUS_BACKEND, "another order");
    }
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    static const struct {
        exec_rank_body *body;
        const char *claim;
    } claims[] = {
        {exchange, "messages are told apart by sender and key"},
        {long_ones, "messages of all lengths arrive whole"},
        {equal_keys, "equal keys keep the order of sending"},
        {sleeps, "sleeps last as long as they were asked to"},
        {regroups, "ranks regroup between messages"},
    };
    const exec_transport_options options = world_options(argc, argv);
    for (size_t index = 0; index < sizeof claims / sizeof claims[0]; index++) {
        world_require(argv[1], &options, claims[index].body, NULL, claims[index].claim);
        if (exec_transport_is_leader(argv[1])) printf("%s\n", claims[index].claim);
    }
    return 0;
}
