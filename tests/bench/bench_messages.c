/// What a message costs: from the call of send until the receiver, who sleeps, has it (half of a
/// round trip); the time of both ends together for one of many that are there already; and how many
/// bytes go through in long ones.
///
/// By itself it measures the transport `local`; under `mpirun -n 2` the transport `mpi`.
#include "base/arena.h"
#include "exec/transport/transport.h"
#include "tests/bench/bench.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 64 };

typedef struct trial {
    int64_t payload_bytes;
    int round_count;
    int64_t trip_ns;  // out: median of half a round trip
    int64_t batch_ns; // out: median of a message of a batch
} trial;

static uint64_t key(int number)
{
    return exec_message_key(EXEC_MESSAGE_FORWARD, 0, 0, number);
}

static status pass(exec_endpoint *endpoint, bool sends, int number, char *bytes, int64_t count,
                   error_message *err)
{
    const int other = 1 - endpoint->rank;
    const exec_message head = {.key = key(number), .payload_bytes = count};
    if (sends) return endpoint->transport->send(endpoint, other, &head, bytes, err);
    return endpoint->transport->receive(endpoint, other, key(number), NULL, bytes, count, err);
}

/// There and back again.
static status make_trips(exec_endpoint *endpoint, trial *at, int64_t *times, char *bytes,
                         error_message *err)
{
    for (int round = 0; round < at->round_count; round++) {
        const int64_t begin_ns = bench_now_ns();
        TRY(pass(endpoint, endpoint->rank == 0, 0, bytes, at->payload_bytes, err));
        TRY(pass(endpoint, endpoint->rank == 1, 0, bytes, at->payload_bytes, err));
        times[round] = (bench_now_ns() - begin_ns) / 2;
    }
    return STATUS_OK;
}

/// Rank 0 sends a batch and then tells so; then rank 1, for whom all are there, takes them. Each
/// measures its part, and rank 1 tells its own.
static status make_batches(exec_endpoint *endpoint, trial *at, int64_t *times, char *bytes,
                           error_message *err)
{
    for (int round = 0; round < at->round_count; round++) {
        int64_t own_ns = 0;
        int64_t other_ns = 0;
        char *told = (char *)&other_ns;
        if (endpoint->rank == 1) TRY(pass(endpoint, false, BATCH, told, sizeof other_ns, err));
        const int64_t begin_ns = bench_now_ns();
        for (int number = 0; number < BATCH; number++) {
            TRY(pass(endpoint, endpoint->rank == 0, number, bytes, at->payload_bytes, err));
        }
        own_ns = bench_now_ns() - begin_ns;
        told = (char *)&own_ns;
        TRY(pass(endpoint, true, BATCH, told, sizeof own_ns, err));
        told = (char *)&other_ns;
        if (endpoint->rank == 0) TRY(pass(endpoint, false, BATCH, told, sizeof other_ns, err));
        times[round] = (own_ns + other_ns) / BATCH;
    }
    return STATUS_OK;
}

static int compare(const void *a, const void *b)
{
    const int64_t left = *(const int64_t *)a;
    const int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int64_t median(int64_t *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, compare);
    return times[count / 2];
}

static status play(exec_endpoint *endpoint, void *context, error_message *err)
{
    trial own = *(const trial *)context;
    int64_t *times = memory_array((size_t)own.round_count, sizeof *times);
    char *bytes = memory_array(1, (size_t)own.payload_bytes + 1);
    status code = times != NULL && bytes != NULL
                      ? STATUS_OK
                      : error_set(err, STATUS_NO_MEMORY, "out of memory");
    if (code == STATUS_OK) code = make_trips(endpoint, &own, times, bytes, err);
    if (code == STATUS_OK) own.trip_ns = median(times, own.round_count);
    if (code == STATUS_OK) code = make_batches(endpoint, &own, times, bytes, err);
    if (code == STATUS_OK) own.batch_ns = median(times, own.round_count);
    if (endpoint->rank == 0) *(trial *)context = own;
    free(bytes);
    free(times);
    return code;
}

static void measure(const char *transport, int64_t payload_bytes, int round_count)
{
    error_message err = {0};
    trial at = {.payload_bytes = payload_bytes, .round_count = round_count};
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = 2;
    bench_require(exec_transport_run(transport, &options, play, &at, &err), &err);
    if (!exec_transport_is_leader(transport)) return;
    bench_print("message_latency_us", (double)at.trip_ns / 1e3, "us",
                "%s, %lld bytes, to a rank that sleeps", transport, (long long)payload_bytes);
    bench_print("message_cost_us", (double)at.batch_ns / 1e3, "us",
                "%s, %lld bytes, send and receive of one of %d", transport,
                (long long)payload_bytes, BATCH);
    if (payload_bytes < 65536) return;
    bench_print("message_gigabytes_per_s", (double)payload_bytes / (double)at.batch_ns, "GB/s",
                "%s, %lld bytes, send and receive of one of %d", transport,
                (long long)payload_bytes, BATCH);
}

int main(int argc, char **argv)
{
    static const int64_t payload_bytes[] = {0, 4000, 65536, 1 << 20};
    const bool smoke = bench_is_smoke(argc, argv);
    const char *launched = getenv("OMPI_COMM_WORLD_SIZE");
    if (launched != NULL && atoi(launched) != 2) return 0;
    for (int index = 0; index < 4; index++) {
        const int rounds = payload_bytes[index] > 10000 ? 50 : 2000;
        measure(launched != NULL ? "mpi" : "local", payload_bytes[index], smoke ? 2 : rounds);
    }
    return 0;
}
