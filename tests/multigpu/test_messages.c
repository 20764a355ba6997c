/// Device memory from GPU to GPU through the nccl transport: to neighbours both ways, from the last
/// rank to the first, in another order than it was sent, beside plain messages, and after ranks
/// have been released and taken back.
#include "tests/multigpu/multigpu_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MICROBATCHES = 6, COUNT = 3000, TAIL_BYTES = 100 };

/// What travels: a handover, and bytes of the host after it.
typedef struct parcel {
    exec_handover handover;
    unsigned char tail[TAIL_BYTES];
} parcel;

typedef struct rank_state {
    exec_endpoint *endpoint;
    exec_kernels *kernels;
    void *device_values; // [COUNT]
    int round;
} rank_state;

/// What rank `from` sends in a round: numbers that tell kind and microbatch.
static float value_of(const rank_state *state, int from, int kind, int microbatch, int index)
{
    return (float)(state->round * 1000 + from * 100 + kind * 50 + microbatch) +
           (float)index * 1e-3F;
}

/// The last microbatches of a round are smaller.
static size_t bytes_of(int microbatch)
{
    return (size_t)(COUNT - 16 * microbatch) * sizeof(float);
}

static status send_values(rank_state *state, int to, exec_message_kind kind, int microbatch,
                          error_message *err)
{
    static _Thread_local float values[COUNT];
    const exec_kernel_table *table = state->kernels->table;
    for (int index = 0; index < COUNT; index++) {
        values[index] = value_of(state, state->endpoint->rank, (int)kind, microbatch, index);
    }
    parcel sent;
    memset(sent.tail, microbatch + 1, sizeof sent.tail);
    table->to_device(state->kernels, state->device_values, values, bytes_of(microbatch));
    TRY(table->offer(state->kernels, state->device_values, bytes_of(microbatch), &sent.handover,
                     err));
    table->clear(state->kernels, state->device_values, sizeof values);
    const exec_message head = {.key = exec_message_key(kind, state->round, 3, microbatch),
                               .payload_bytes = sizeof sent};
    return state->endpoint->transport->send(state->endpoint, to, &head, &sent, err);
}

static status receive_values(rank_state *state, int from, exec_message_kind kind, int microbatch,
                             error_message *err)
{
    static _Thread_local float values[COUNT];
    const exec_kernel_table *table = state->kernels->table;
    parcel received;
    exec_message head;
    TRY(state->endpoint->transport->receive(state->endpoint, from,
                                            exec_message_key(kind, state->round, 3, microbatch),
                                            &head, &received, sizeof received, err));
    TRY(table->take(state->kernels, &received.handover, state->device_values, err));
    table->to_host(state->kernels, values, state->device_values, bytes_of(microbatch));
    TRY(table->finish(state->kernels, err));
    for (int index = 0; index < (int)(bytes_of(microbatch) / sizeof(float)); index++) {
        const float expected = value_of(state, from, (int)kind, microbatch, index);
        if (values[index] != expected || received.tail[5] != microbatch + 1) {
            return error_set(err, STATUS_BACKEND, "rank %d got %g in place of %g from rank %d",
                             state->endpoint->rank, (double)values[index], (double)expected, from);
        }
    }
    return STATUS_OK;
}

/// The active ranks send in a circle, forward and back; backward is asked for in descending order.
static status exchange(rank_state *state, const int *active, int active_count, int own,
                       error_message *err)
{
    const int next = active[(own + 1) % active_count];
    const int before = active[(own + active_count - 1) % active_count];
    for (int microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
        TRY(send_values(state, next, EXEC_MESSAGE_FORWARD, microbatch, err));
        TRY(send_values(state, before, EXEC_MESSAGE_BACKWARD, microbatch, err));
    }
    for (int microbatch = 0; microbatch < MICROBATCHES; microbatch++) {
        TRY(receive_values(state, before, EXEC_MESSAGE_FORWARD, microbatch, err));
    }
    for (int microbatch = MICROBATCHES - 1; microbatch >= 0; microbatch--) {
        TRY(receive_values(state, next, EXEC_MESSAGE_BACKWARD, microbatch, err));
    }
    return STATUS_OK;
}

/// A message that is no device memory.
static status exchange_plain(rank_state *state, error_message *err)
{
    const exec_endpoint *endpoint = state->endpoint;
    const uint64_t key = exec_message_key(EXEC_MESSAGE_FORWARD, state->round, 4, 0);
    const exec_message head = {.key = key, .payload_bytes = 5};
    char text[5] = "";
    const int to = (endpoint->rank + 1) % endpoint->rank_count;
    const int from = (endpoint->rank + endpoint->rank_count - 1) % endpoint->rank_count;
    TRY(endpoint->transport->send(state->endpoint, to, &head, "four", err));
    TRY(endpoint->transport->receive(state->endpoint, from, key, NULL, text, sizeof text, err));
    if (strcmp(text, "four") == 0) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "a plain message has changed");
}

static status play(rank_state *state, error_message *err)
{
    const int ranks = state->endpoint->rank_count;
    int place[64];
    int active[64];
    for (state->round = 0; state->round < 4; state->round++) {
        int active_count = 0, own = -1;
        for (int rank = 0; rank < ranks; rank++) {
            place[rank] = -1;
            if (state->round % 2 != 0 && rank % 3 == 1 && ranks >= 3) continue;
            place[rank] = active_count;
            if (rank == state->endpoint->rank) own = active_count;
            active[active_count++] = rank;
        }
        if (state->round > 0) {
            TRY(state->endpoint->transport->regroup(state->endpoint, place, ranks, err));
        }
        if (own >= 0) TRY(exchange(state, active, active_count, own, err));
        if (state->round % 2 == 0) TRY(exchange_plain(state, err));
    }
    return STATUS_OK;
}

static status body(exec_endpoint *endpoint, void *context, error_message *err)
{
    (void)context;
    rank_state state = {.endpoint = endpoint};
    TRY(multigpu_open(endpoint->rank, endpoint->rank_count, &state.kernels, err));
    state.device_values = state.kernels->table->allocate(state.kernels, COUNT * sizeof(float));
    status result = state.kernels->table->check(state.kernels, err);
    if (result == STATUS_OK) result = play(&state, err);
    if (result != STATUS_OK) exec_endpoint_abandon(endpoint);
    state.kernels->table->release(state.kernels, state.device_values);
    state.kernels->table->close(state.kernels);
    return result;
}

int main(void)
{
    error_message err = {.code = STATUS_OK};
    const status result = multigpu_run(body, &err);
    if (result != STATUS_OK) printf("%s\n", err.message);
    return result == STATUS_OK ? 0 : 1;
}
