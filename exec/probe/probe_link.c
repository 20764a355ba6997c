#include "exec/probe/probe_link.h"

#include "base/arena.h"
#include "exec/monotonic_clock.h"
#include "exec/transport/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIZE_MIN = 64, WARM_ROUNDS = 2, SIZES_MAX = 32 };
static const int64_t watchdog_ns = INT64_C(600000000000);

exec_probe_links_options exec_probe_links_options_default(void)
{
    return (exec_probe_links_options){
        .transport = "local", .rank_count = 2, .round_count = 50, .size_max = INT64_C(64) << 20};
}

/// Sums of a weighted line through the trips: weight 1 / time^2.
typedef struct line_sums {
    double weight, bytes, squares, times, products;
} line_sums;

static line_sums sum_trips(const exec_probe_trip *trips, int count)
{
    line_sums sums = {0};
    for (int trip = 0; trip < count; trip++) {
        const double bytes = (double)trips[trip].bytes;
        const double time = (double)trips[trip].times.median_ns;
        const double weight = 1 / (time * time);
        sums.weight += weight;
        sums.bytes += weight * bytes;
        sums.squares += weight * bytes * bytes;
        sums.times += weight * time;
        sums.products += weight * bytes * time;
    }
    return sums;
}

static double largest_deviation(const exec_probe_trip *trips, int count, double latency,
                                double ns_per_byte)
{
    double largest = 0;
    for (int trip = 0; trip < count; trip++) {
        const double line = latency + ns_per_byte * (double)trips[trip].bytes;
        const double ratio = line / (double)trips[trip].times.median_ns - 1;
        const double size = ratio < 0 ? -ratio : ratio;
        if (size > largest) largest = size;
    }
    return largest;
}

static bool has_two_sizes(const exec_probe_trip *trips, int count)
{
    for (int trip = 1; trip < count; trip++) {
        if (trips[trip].bytes != trips[0].bytes) return true;
    }
    return false;
}

status exec_probe_line_fit(const exec_probe_trip *trips, int count, exec_probe_line *line,
                           error_message *err)
{
    if (!has_two_sizes(trips, count)) {
        return error_set(err, STATUS_INVALID, "%d trips of one size make no line", count);
    }
    const line_sums sums = sum_trips(trips, count);
    const double determinant = sums.weight * sums.squares - sums.bytes * sums.bytes;
    double ns_per_byte = (sums.weight * sums.products - sums.bytes * sums.times) / determinant;
    double latency = (sums.times - ns_per_byte * sums.bytes) / sums.weight;
    if (latency < 0) {
        latency = 0;
        ns_per_byte = sums.products / sums.squares;
    }
    if (!(ns_per_byte > 0)) {
        return error_set(err, STATUS_INVALID,
                         "messages of %lld bytes take no longer than shorter ones: no bandwidth "
                         "can be told",
                         (long long)trips[count - 1].bytes);
    }
    *line =
        (exec_probe_line){.latency_ns = (int64_t)(latency + 0.5),
                          .bytes_per_s = (int64_t)(1e9 / ns_per_byte + 0.5),
                          .deviation_ratio = largest_deviation(trips, count, latency, ns_per_byte),
                          .trip_count = count};
    return STATUS_OK;
}

/// What the body of every rank is given, and fills where it is rank 0.
typedef struct measuring {
    const exec_probe_links_options *options;
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
    exec_probe_trip *trips;
    int trip_count;
    int64_t *samples; // [round_count]
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

static status measure_size(rank_state *own, int other, int64_t bytes, int round_count,
                           error_message *err)
{
    for (int round = -WARM_ROUNDS; round < round_count; round++) {
        const int64_t begin_ns = exec_monotonic_ns();
        TRY(make_round(own, other, bytes, err));
        const int64_t half_ns = (exec_monotonic_ns() - begin_ns) / 2;
        if (round >= 0) own->samples[round] = half_ns > 0 ? half_ns : 1;
    }
    if (own->endpoint->rank > other) return STATUS_OK;
    own->trips[own->trip_count++] =
        (exec_probe_trip){.from = own->endpoint->rank,
                          .to = other,
                          .bytes = bytes,
                          .times = exec_probe_times_of(own->samples, round_count)};
    return STATUS_OK;
}

/// The larger the message, the fewer rounds, but at least a tenth of them.
static int rounds_of(const exec_probe_links_options *options, int64_t bytes)
{
    const int least = options->round_count / 10 > 3 ? options->round_count / 10 : 3;
    const int few = least < options->round_count ? least : options->round_count;
    return bytes > (1 << 20) ? few : options->round_count;
}

static status measure_pair(rank_state *own, const exec_probe_links_options *options, int other,
                           error_message *err)
{
    own->message = 0;
    for (int64_t bytes = SIZE_MIN; bytes <= options->size_max; bytes *= 4) {
        TRY(measure_size(own, other, bytes, rounds_of(options, bytes), err));
    }
    return STATUS_OK;
}

/// Every two ranks in turn; all others wait.
static status measure_pairs(rank_state *own, const exec_probe_links_options *options,
                            error_message *err)
{
    const int rank = own->endpoint->rank;
    for (int lower = 0; lower < own->all.rank_count; lower++) {
        for (int upper = lower + 1; upper < own->all.rank_count; upper++) {
            TRY(exec_group_barrier(&own->all, err));
            if (rank == lower) TRY(measure_pair(own, options, upper, err));
            if (rank == upper) TRY(measure_pair(own, options, lower, err));
        }
    }
    return exec_group_barrier(&own->all, err);
}

/// Brings trips and names of machines to rank 0.
static status gather(rank_state *own, measuring *into, error_message *err)
{
    char host[EXEC_PROBE_HOST_BYTES] = "";
    int64_t sizes[EXEC_PROBE_RANKS_MAX];
    const bool is_root = own->endpoint->rank == 0;
    void *trips = NULL;
    void *hosts = NULL;
    int64_t bytes = 0;
    gethostname(host, sizeof host - 1);
    TRY(exec_group_gather(&own->all, own->trips,
                          (int64_t)own->trip_count * (int64_t)sizeof *own->trips, into->memory,
                          is_root ? sizes : NULL, is_root ? &trips : NULL, err));
    for (int rank = 0; is_root && rank < own->all.rank_count; rank++) {
        bytes += sizes[rank];
    }
    TRY(exec_group_gather(&own->all, host, sizeof host, into->memory, is_root ? sizes : NULL,
                          is_root ? &hosts : NULL, err));
    if (!is_root) return STATUS_OK;
    into->links = (exec_probe_links){.rank_count = own->all.rank_count,
                                     .trip_count = (int)(bytes / (int64_t)sizeof *own->trips),
                                     .trips = trips,
                                     .hosts = hosts,
                                     .is_leader = true};
    return STATUS_OK;
}

/// Memory for messages; the backend of a GPU where they lie on one.
static status open_memory(rank_state *own, const exec_probe_links_options *options,
                          error_message *err)
{
    const bool hands_over = options->uses_cuda && own->endpoint->transport->takes_device_memory;
    const bool shares_gpu = strcmp(options->transport, "local") == 0;
    own->samples = memory_array((size_t)options->round_count, sizeof *own->samples);
    own->trips = memory_array((size_t)own->all.rank_count * SIZES_MAX, sizeof *own->trips);
    if (hands_over) {
        void *memory = NULL;
        TRY(exec_kernels_cuda_open(EXEC_CUDA_FP32, shares_gpu ? own->endpoint->rank : 0,
                                   shares_gpu ? own->all.rank_count : 1, &own->kernels, err));
        TRY(own->kernels->table->allocate(own->kernels, (size_t)options->size_max, &memory, err));
        own->bytes = memory;
        return own->kernels->table->finish(own->kernels, err);
    }
    own->bytes = memory_array(1, (size_t)options->size_max);
    return STATUS_OK;
}

static void close_memory(rank_state *own)
{
    if (own->kernels != NULL) {
        own->kernels->table->release(own->kernels, own->bytes);
        own->kernels->table->close(own->kernels);
    } else {
        free(own->bytes);
    }
    free(own->trips);
    free(own->samples);
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
    status result = open_memory(&own, of->options, err);
    if (result == STATUS_OK) result = measure_pairs(&own, of->options, err);
    if (result == STATUS_OK) result = gather(&own, of, err);
    close_memory(&own);
    return result;
}

bool exec_probe_links_is_intra(const exec_probe_links *links, int rank, int other)
{
    return strcmp(links->hosts + (size_t)rank * EXEC_PROBE_HOST_BYTES,
                  links->hosts + (size_t)other * EXEC_PROBE_HOST_BYTES) == 0;
}

status exec_probe_links_measure(const exec_probe_links_options *options, arena *memory,
                                exec_probe_links *links, error_message *err)
{
    measuring of = {.options = options, .memory = memory};
    exec_transport_options transport = exec_transport_options_default();
    transport.rank_count = options->rank_count;
    transport.watchdog_ns = watchdog_ns;
    TRY(exec_transport_run(options->transport, &transport, measure_rank, &of, err));
    *links = of.links;
    return STATUS_OK;
}
