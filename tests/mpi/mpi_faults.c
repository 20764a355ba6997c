/// Ranks that meet a fault, for mpi_faults.sh: `mpi_faults TRANSPORT RANKS FAULT RANK`, as one
/// process of so many. The rank meets the fault at an op while the others wait for its message, or
/// sleep. The program ends as dynmo does: one process prints the message.
#include "tests/mpi/world.h"

#include <signal.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef struct fault {
    const char *name;
    int rank; // whose it is
} fault;

static atomic_bool interrupt;

static void heed(int signal_number)
{
    (void)signal_number;
    atomic_store(&interrupt, true);
}

static void hang(void)
{
    for (;;) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
}

static status wait_for(exec_endpoint *endpoint, int from, error_message *err)
{
    const uint64_t key = exec_message_key(EXEC_MESSAGE_FORWARD, 12, 3, 5);
    return endpoint->transport->receive(endpoint, from, key, NULL, NULL, 0, err);
}

/// More than leaves before the receiver takes it.
static status send_long(exec_endpoint *endpoint, int to, error_message *err)
{
    static const char payload[1 << 22];
    const exec_message head = {.key = exec_message_key(EXEC_MESSAGE_ORDER, 12, 3, 5),
                               .payload_bytes = sizeof payload};
    return endpoint->transport->send(endpoint, to, &head, payload, err);
}

static status meet(exec_endpoint *endpoint, const fault *met, error_message *err)
{
    if (strcmp(met->name, "dies") == 0) kill(getpid(), SIGKILL);
    if (strcmp(met->name, "leaves") == 0) _exit(0);
    if (strcmp(met->name, "stops") == 0) raise(SIGSTOP);
    if (strcmp(met->name, "interrupts") == 0) kill(getppid(), SIGINT);
    if (strcmp(met->name, "terminates") == 0) kill(getppid(), SIGTERM);
    if (strcmp(met->name, "hangs") == 0 || strcmp(met->name, "ignores") == 0) hang();
    if (strcmp(met->name, "fails") != 0) return wait_for(endpoint, met->rank, err);
    return error_set(err, STATUS_NO_MEMORY, "out of memory for 99 bytes");
}

/// All have come here, so that nobody meets the fault while others still start.
static status meet_all(exec_endpoint *endpoint, error_message *err)
{
    int place[64];
    for (int rank = 0; rank < endpoint->rank_count; rank++) {
        place[rank] = rank;
    }
    return endpoint->transport->regroup(endpoint, place, endpoint->rank_count, err);
}

static status play(exec_endpoint *endpoint, void *context, error_message *err)
{
    const fault *met = context;
    const int rank = endpoint->rank;
    const bal_op op = {.kind = OP_FORWARD, .microbatch = 5};
    TRY(meet_all(endpoint, err));
    exec_activity_set_op(&endpoint->activity, 12, rank + 1, op);
    if (strcmp(met->name, "waits") == 0) {
        return wait_for(endpoint, (rank + 1) % endpoint->rank_count, err);
    }
    if (rank == met->rank) return meet(endpoint, met, err);
    if (strcmp(met->name, "ignores") == 0) {
        TRY(send_long(endpoint, met->rank, err));
        return meet_all(endpoint, err);
    }
    if (rank % 2 == 0) return wait_for(endpoint, met->rank, err);
    const int64_t far_ns = endpoint->transport->now_ns(endpoint) + 3600 * INT64_C(1000000000);
    // Where nothing shall move, sleeping to an end is not right: it would be waited for.
    const bool is_quiet = strcmp(met->name, "hangs") == 0 || strcmp(met->name, "stops") == 0;
    return is_quiet ? wait_for(endpoint, met->rank, err)
                    : endpoint->transport->sleep_until(endpoint, far_ns, err);
}

int main(int argc, char **argv)
{
    error_message err = {0};
    exec_transport_options options = exec_transport_options_default();
    if (argc < 5) return 2;
    const char *transport = argv[1];
    fault met = {.name = argv[3], .rank = atoi(argv[4])};
    options.rank_count = atoi(argv[2]);
    options.watchdog_ns = INT64_C(2000000000);
    options.grace_ns = INT64_C(1000000000);
    options.interrupt = &interrupt;
    signal(SIGINT, heed);
    signal(SIGTERM, heed);
    const status code = exec_transport_run(transport, &options, play, &met, &err);
    if (code == STATUS_UNSUPPORTED) return 77;
    if (code == STATUS_OK) return 0;
    if (exec_transport_is_leader(transport)) {
        fprintf(stderr, "mpi_faults: %s\n", err.message);
    } else {
        (void)exec_transport_end(transport, code, NULL);
    }
    return 1;
}
