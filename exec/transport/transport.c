#include "exec/transport/transport.h"

#include "base/launcher.h"
#include "exec/transport/transports.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static bool local_is_leader(void)
{
    return true;
}

static void local_let_leader_end(void)
{
}

static const struct {
    const char *name;
    exec_transport_runner *run;
    bool (*is_leader)(void);
    void (*let_leader_end)(void);
} transports[] = {
    {"local", exec_transport_local_run, local_is_leader, local_let_leader_end},
    {"mpi", exec_transport_mpi_run, exec_transport_mpi_is_leader,
     exec_transport_mpi_let_leader_end},
    {"tcp", exec_transport_tcp_run, exec_transport_tcp_is_leader,
     exec_transport_mpi_let_leader_end},
    {"nccl", exec_transport_nccl_run, exec_transport_nccl_is_leader,
     exec_transport_mpi_let_leader_end},
};
enum { TRANSPORT_COUNT = sizeof transports / sizeof transports[0] };

/// Bits of a key, from the top: kind (4), sequence (24), stage (16), microbatch (20).
enum { SEQUENCE_BITS = 24, STAGE_BITS = 16, MICROBATCH_BITS = 20 };
_Static_assert(BAL_MICROBATCHES_MAX <= 1 << MICROBATCH_BITS, "a microbatch fits its bits");
_Static_assert(EXEC_MESSAGE_KIND_COUNT <= 16, "a kind fits its bits");

uint64_t exec_message_key(exec_message_kind kind, int sequence, int stage, int microbatch)
{
    assert(stage >= 0 && stage < 1 << STAGE_BITS);
    assert(microbatch >= 0 && microbatch < 1 << MICROBATCH_BITS);
    const uint64_t low_sequence = (uint64_t)sequence & ((1 << SEQUENCE_BITS) - 1);
    return (uint64_t)kind << (SEQUENCE_BITS + STAGE_BITS + MICROBATCH_BITS) |
           low_sequence << (STAGE_BITS + MICROBATCH_BITS) | (uint64_t)stage << MICROBATCH_BITS |
           (uint64_t)microbatch;
}

exec_transport_options exec_transport_options_default(void)
{
    return (exec_transport_options){
        .rank_count = 1,
        .watchdog_ns = INT64_C(60000000000),
        .grace_ns = INT64_C(5000000000),
    };
}

/// The row of a name, or -1.
static int find(const char *name)
{
    for (int row = 0; row < TRANSPORT_COUNT; row++) {
        if (strcmp(transports[row].name, name) == 0) return row;
    }
    return -1;
}

static status check_name(const char *name, error_message *err)
{
    const char *names[TRANSPORT_COUNT];
    char suggestion[TEXT_SUGGESTION_BYTES];
    if (find(name) >= 0) return STATUS_OK;
    for (int row = 0; row < TRANSPORT_COUNT; row++) {
        names[row] = transports[row].name;
    }
    return error_set(err, STATUS_INVALID, "unknown transport '%.60s'%s", name,
                     text_suggestion(name, names, TRANSPORT_COUNT, suggestion));
}

status exec_transport_meet(exec_endpoint *endpoint, uint64_t key, error_message *err)
{
    const exec_transport *transport = endpoint->transport;
    const exec_message empty = {.key = key};
    if (endpoint->rank != 0) {
        TRY(transport->send(endpoint, 0, &empty, NULL, err));
        return transport->receive(endpoint, 0, key, NULL, NULL, 0, err);
    }
    for (int rank = 1; rank < endpoint->rank_count; rank++) {
        TRY(transport->receive(endpoint, rank, key, NULL, NULL, 0, err));
    }
    for (int rank = 1; rank < endpoint->rank_count; rank++) {
        TRY(transport->send(endpoint, rank, &empty, NULL, err));
    }
    return STATUS_OK;
}

status exec_transport_check_length(int from, int64_t bytes, int64_t capacity_bytes,
                                   error_message *err)
{
    if (bytes <= capacity_bytes) return STATUS_OK;
    return error_set(err, STATUS_BACKEND,
                     "a message of %" PRId64 " bytes from rank %d, where at most %" PRId64
                     " are expected",
                     bytes, from, capacity_bytes);
}

status exec_transport_run(const char *name, const exec_transport_options *options,
                          exec_rank_body *body, void *context, error_message *err)
{
    TRY(check_name(name, err));
    if (options->rank_count < 1 || options->rank_count > BAL_RANKS_MAX) {
        return error_set(err, STATUS_INVALID, "%d ranks: outside [1, %d]", options->rank_count,
                         BAL_RANKS_MAX);
    }
    if (options->abandoned_rank_count != NULL) *options->abandoned_rank_count = 0;
    return transports[find(name)].run(options, body, context, err);
}

status exec_transport_check_launcher(const char *name, error_message *err)
{
    const char *variable = NULL;
    const int count = launcher_process_count(&variable);
    if (strcmp(name, "local") != 0 || count == 1) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s=%d: a launcher has started several processes, but --transport local has "
                     "all ranks in one; give --transport mpi or tcp",
                     variable, count);
}

bool exec_transport_is_leader(const char *name)
{
    const int row = find(name);
    return row >= 0 && transports[row].is_leader();
}

void exec_transport_let_leader_end(const char *name)
{
    const int row = find(name);
    if (row >= 0) transports[row].let_leader_end();
}
