/// How fast ranks reach each other: messages there and back, and the line that fits them.
#include "exec/probe/probe.h"

#include "exec/clock.h"
#include "exec/transport/group.h"
#include "exec/transport/transport.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE_MIN = 64, WARM_ROUNDS = 2, SIZES_MAX = 32, ROUNDS = 50, FEW_ROUNDS = 5 };
enum { LONG_BYTES = 1 << 20, HOST_BYTES = 64 };
static const int64_t watchdog_ns = INT64_C(600000000000);

/// The weighted line through the messages, weight 1 / time^2.
static void find_line(const exec_measurement *messages, int count, double *latency_ns,
                      double *ns_per_byte)
{
    double weights = 0, bytes = 0, squares = 0, times = 0, products = 0;
    for (int index = 0; index < count; index++) {
        const double size = (double)messages[index].amount;
        const double time = (double)messages[index].median_ns;
        const double weight = 1 / (time * time);
        weights += weight;
        bytes += weight * size;
        squares += weight * size * size;
        times += weight * time;
        products += weight * size * time;
    }
    *ns_per_byte = (weights * products - bytes * times) / (weights * squares - bytes * bytes);
    *latency_ns = (times - *ns_per_byte * bytes) / weights;
    if (*latency_ns >= 0) return;
    *latency_ns = 0;
    *ns_per_byte = products / squares;
}

static bool has_two_sizes(const exec_measurement *messages, int count)
{
    for (int index = 1; index < count; index++) {
        if (messages[index].amount != messages[0].amount) return true;
    }
    return false;
}

status exec_probe_line_fit(const exec_measurement *messages, int count, exec_probe_line *line,
                           error_message *err)
{
    double latency_ns, ns_per_byte, largest = 0;
    if (!has_two_sizes(messages, count)) {
        return error_set(err, STATUS_INVALID, "%d trips of one size make no line", count);
    }
    find_line(messages, count, &latency_ns, &ns_per_byte);
    if (!(ns_per_byte > 0)) {
        return error_set(err, STATUS_INVALID,
                         "messages of %lld bytes take no longer than shorter ones: no bandwidth "
                         "can be told",
                         (long long)messages[count - 1].amount);
    }
    for (int index = 0; index < count; index++) {
        const double told_ns = latency_ns + ns_per_byte * (double)messages[index].amount;
        largest = fmax(largest, fabs(told_ns / (double)messages[index].median_ns - 1));
    }
    *line = (exec_probe_line){.latency_ns = (int64_t)(latency_ns + 0.5),
                              .bytes_per_s = (int64_t)(1e9 / ns_per_byte + 0.5),
                              .deviation_ratio = largest,
                              .count = count};
    return STATUS_OK;
}

/// What the body of every rank is given, and fills where it is rank 0.
typedef struct measuring {
    bool uses_cuda;
    bool shares_gpu;
    int64_t size_max;
    arena *memory;
    exec_probe_links links;
} measuring;

/// One rank while it measures.
typedef struct rank_state {
    exec_endpoint *endpoint;
    exec_group all;
    int ranks[EXEC_PROBE_RANKS_MAX];
    int sequence;
    int message;           // number of the next message of this pair
    exec_kernels *kernels; // NULL: messages lie in the host's memory
    char *bytes;           // [size_max] memory of the host, or of the device
    exec_measurement *messages;
    int count;
} rank_state;

static status send_bytes(rank_state *own, int to, uint64_t key, int64_t bytes, error_message *err)
{
    exec_message head = {.key = key, .payload_bytes = bytes};
    if (own->kernels == NULL) {
        return own->endpoint->transport->send(own->endpoint, to, &head, own->bytes, err);
    }
    exec_handover described = {0};
    head.payload_bytes = sizeof described;
    TRY(own->kernels->table->offer(own->kernels, own->bytes, (size_t)bytes, &described, err));
    return own->endpoint->transport->send(own->endpoint, to, &head, &described, err);
}

static status receive_bytes(rank_state *own, int from, uint64_t key, int64_t bytes,
                            error_message *err)
{
    const exec_transport *transport = own->endpoint->transport;
    if (own->kernels == NULL) {
        return transport->receive(own->endpoint, from, key, NULL, own->bytes, bytes, err);
    }
    exec_handover described = {0};
    TRY(transport->receive(own->endpoint, from, key, NULL, &described, sizeof described, err));
    TRY(own->kernels->table->take(own->kernels, &described, own->bytes, err));
    return own->kernels->table->finish(own->kernels, err);
}

/// There and back, begun by the lower rank.
static status make_round(rank_state *own, int other, int64_t bytes, error_message *err)
{
    const uint64_t there = exec_message_key(EXEC_MESSAGE_FORWARD, own->message, 0, 0);
    const uint64_t back = exec_message_key(EXEC_MESSAGE_FORWARD, own->message, 0, 1);
    own->message++;
    if (own->endpoint->rank < other) {
        TRY(send_bytes(own, other, there, bytes, err));
        return receive_bytes(own, other, back, bytes, err);
    }
    TRY(receive_bytes(own, other, there, bytes, err));
    return send_bytes(own, other, back, bytes, err);
}

static status measure_size(rank_state *own, int other, int64_t bytes, error_message *err)
{
    int64_t samples[ROUNDS];
    const int rounds = bytes > LONG_BYTES ? FEW_ROUNDS : ROUNDS;
    for (int round = -WARM_ROUNDS; round < rounds; round++) {
        const int64_t begin_ns = exec_monotonic_ns();
        TRY(make_round(own, other, bytes, err));
        const int64_t half_ns = (exec_monotonic_ns() - begin_ns) / 2;
        if (round >= 0) samples[round] = half_ns > 0 ? half_ns : 1;
    }
    if (own->endpoint->rank > other) return STATUS_OK;
    exec_measurement *told = &own->messages[own->count++];
    *told = (exec_measurement){.kind = EXEC_PROBE_MESSAGE,
                               .shape = {.rows = own->endpoint->rank, .columns = other},
                               .amount = bytes};
    exec_probe_tell(samples, rounds, told);
    return STATUS_OK;
}

static status measure_pair(rank_state *own, int other, int64_t size_max, error_message *err)
{
    own->message = 0;
    for (int64_t bytes = SIZE_MIN; bytes <= size_max; bytes *= 4) {
        TRY(measure_size(own, other, bytes, err));
    }
    return STATUS_OK;
}

/// Every two ranks in turn; all others wait.
static status measure_pairs(rank_state *own, int64_t size_max, error_message *err)
{
    const int rank = own->endpoint->rank;
    for (int lower = 0; lower < own->all.rank_count; lower++) {
        for (int upper = lower + 1; upper < own->all.rank_count; upper++) {
            TRY(exec_group_barrier(&own->all, err));
            if (rank == lower) TRY(measure_pair(own, upper, size_max, err));
            if (rank == upper) TRY(measure_pair(own, lower, size_max, err));
        }
    }
    return exec_group_barrier(&own->all, err);
}

/// Brings measurements and names of machines to rank 0.
static status gather(rank_state *own, measuring *into, error_message *err)
{
    char host[HOST_BYTES] = "";
    int64_t sizes[EXEC_PROBE_RANKS_MAX];
    const bool is_root = own->endpoint->rank == 0;
    void *all = NULL;
    void *hosts = NULL;
    int64_t bytes = 0;
    gethostname(host, sizeof host - 1);
    TRY(exec_group_gather(&own->all, own->messages,
                          (int64_t)own->count * (int64_t)sizeof *own->messages, into->memory,
                          is_root ? sizes : NULL, is_root ? &all : NULL, err));
    for (int rank = 0; is_root && rank < own->all.rank_count; rank++) {
        bytes += sizes[rank];
    }
    TRY(exec_group_gather(&own->all, host, sizeof host, into->memory, is_root ? sizes : NULL,
                          is_root ? &hosts : NULL, err));
    if (!is_root) return STATUS_OK;
    exec_measurement *messages = all;
    const int count = (int)(bytes / (int64_t)sizeof *messages);
    for (int index = 0; index < count; index++) {
        exec_measurement *each = &messages[index];
        each->name = "message";
        each->is_intra = strcmp((char *)hosts + (size_t)each->shape.rows * HOST_BYTES,
                                (char *)hosts + (size_t)each->shape.columns * HOST_BYTES) == 0;
    }
    into->links = (exec_probe_links){own->all.rank_count, count, messages, true};
    return STATUS_OK;
}

/// Memory for messages; the backend of a GPU where they lie on one.
static status open_memory(rank_state *own, const measuring *of, error_message *err)
{
    const int rank = own->endpoint->rank;
    own->messages = memory_array((size_t)own->all.rank_count * SIZES_MAX, sizeof *own->messages);
    if (!of->uses_cuda || !own->endpoint->transport->takes_device_memory) {
        own->bytes = memory_array(1, (size_t)of->size_max);
        return STATUS_OK;
    }
    TRY(exec_kernels_cuda_open(EXEC_CUDA_FP32, of->shares_gpu ? rank : 0,
                               of->shares_gpu ? own->all.rank_count : 1, &own->kernels, err));
    own->bytes = own->kernels->table->allocate(own->kernels, (size_t)of->size_max);
    return own->kernels->table->finish(own->kernels, err);
}

static void close_memory(rank_state *own)
{
    if (own->kernels != NULL) {
        own->kernels->table->release(own->kernels, own->bytes);
        own->kernels->table->close(own->kernels);
    } else {
        free(own->bytes);
    }
    free(own->messages);
}

static status measure_rank(exec_endpoint *endpoint, void *context, error_message *err)
{
    measuring *of = context;
    rank_state own = {.endpoint = endpoint};
    if (endpoint->rank_count < 2 || endpoint->rank_count > EXEC_PROBE_RANKS_MAX) {
        return error_set(err, STATUS_INVALID,
                         "links are between ranks: there are %d, 2 to %d are needed",
                         endpoint->rank_count, EXEC_PROBE_RANKS_MAX);
    }
    for (int rank = 0; rank < endpoint->rank_count; rank++) {
        own.ranks[rank] = rank;
    }
    own.all = (exec_group){.endpoint = endpoint,
                           .rank = own.ranks,
                           .rank_count = endpoint->rank_count,
                           .self = endpoint->rank,
                           .sequence = &own.sequence};
    status result = open_memory(&own, of, err);
    if (result == STATUS_OK) result = measure_pairs(&own, of->size_max, err);
    if (result == STATUS_OK) result = gather(&own, of, err);
    if (result != STATUS_OK) exec_endpoint_abandon(endpoint);
    close_memory(&own);
    return result;
}

status exec_probe_links_measure(const char *transport, int rank_count, int64_t size_max,
                                bool uses_cuda, arena *memory, exec_probe_links *links,
                                error_message *err)
{
    measuring of = {.uses_cuda = uses_cuda,
                    .shares_gpu = strcmp(transport, "local") == 0,
                    .size_max = size_max,
                    .memory = memory};
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = rank_count;
    options.watchdog_ns = watchdog_ns;
    TRY(exec_transport_run(transport, &options, measure_rank, &of, err));
    *links = of.links;
    return STATUS_OK;
}
