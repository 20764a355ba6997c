#include "exec/transport/transport.h"

#include "base/launcher.h"
#include "base/loadable.h"
#include "exec/clock.h"
#include "exec/transport/transports.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const phase_names[EXEC_PHASE_COUNT] = {
    [EXEC_PHASE_START] = "start",       [EXEC_PHASE_REDUCTION] = "reduction",
    [EXEC_PHASE_UPDATE] = "update",     [EXEC_PHASE_REPORT] = "report",
    [EXEC_PHASE_DECISION] = "decision", [EXEC_PHASE_MIGRATION] = "migration",
    [EXEC_PHASE_HASH] = "state hash",   [EXEC_PHASE_RELEASED] = "released",
};

static void set(exec_activity *activity, int iteration, int what, int stage, int microbatch)
{
    atomic_store_explicit(&activity->iteration, iteration, memory_order_relaxed);
    atomic_store_explicit(&activity->stage, stage, memory_order_relaxed);
    atomic_store_explicit(&activity->microbatch, microbatch, memory_order_relaxed);
    atomic_store_explicit(&activity->what, what, memory_order_relaxed);
}

void exec_activity_set_op(exec_activity *activity, int iteration, int stage, bal_op op)
{
    set(activity, iteration, EXEC_PHASE_COUNT + op.kind, stage, op.microbatch);
}

void exec_activity_set_phase(exec_activity *activity, int iteration, exec_phase phase)
{
    set(activity, iteration, (int)phase, 0, 0);
}

const char *exec_activity_text(const exec_activity *activity, int rank,
                               char out[EXEC_ACTIVITY_BYTES])
{
    const int what = atomic_load_explicit(&activity->what, memory_order_relaxed);
    const int iteration = atomic_load_explicit(&activity->iteration, memory_order_relaxed);
    if (what >= EXEC_PHASE_COUNT) {
        const bal_op op = {.kind = (uint8_t)(what - EXEC_PHASE_COUNT),
                           .microbatch =
                               atomic_load_explicit(&activity->microbatch, memory_order_relaxed)};
        snprintf(out, EXEC_ACTIVITY_BYTES, "rank %d, iteration %d, %s of stage %d", rank, iteration,
                 bal_op_name(op).text,
                 atomic_load_explicit(&activity->stage, memory_order_relaxed));
    } else if (what != EXEC_PHASE_NONE) {
        snprintf(out, EXEC_ACTIVITY_BYTES, "rank %d, iteration %d, %s", rank, iteration,
                 phase_names[what]);
    } else {
        snprintf(out, EXEC_ACTIVITY_BYTES, "rank %d", rank);
    }
    return out;
}

void exec_activity_blame(const exec_activity *activity, int rank, status code, error_message *err)
{
    char text[EXEC_ACTIVITY_BYTES];
    if (strncmp(err->message, "rank ", 5) != 0) {
        error_prefix(err, code, "%s", exec_activity_text(activity, rank, text));
    }
    err->code = code;
}

const char *const exec_transport_names[EXEC_TRANSPORT_COUNT] = {"local", "mpi", "tcp", "nccl"};

/// NULL: that of the module of this name.
static exec_transport_runner *const runners[EXEC_TRANSPORT_COUNT] = {exec_transport_local_run, NULL,
                                                                     exec_transport_tcp_run, NULL};

/// What this process knows of who prints.
static struct {
    bool has_run;
    bool speaks;
} process;

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

bool exec_message_is_of_op(uint64_t key)
{
    const uint64_t kind = key >> (SEQUENCE_BITS + STAGE_BITS + MICROBATCH_BITS);
    return kind == EXEC_MESSAGE_FORWARD || kind == EXEC_MESSAGE_BACKWARD;
}

uint64_t exec_note_key(exec_note what)
{
    return exec_message_key(EXEC_MESSAGE_GROUP, 0, EXEC_STAGE_OF_TRANSPORT, (int)what);
}

exec_transport_options exec_transport_options_default(void)
{
    return (exec_transport_options){
        .rank_count = 1,
        .watchdog_ns = INT64_C(60000000000),
        .grace_ns = INT64_C(5000000000),
    };
}

/// The number of a name; EXEC_TRANSPORT_COUNT: there is none.
static int find(const char *name)
{
    return text_find(name, exec_transport_names, EXEC_TRANSPORT_COUNT);
}

static status check_name(const char *name, error_message *err)
{
    char suggestion[TEXT_SUGGESTION_BYTES];
    if (find(name) < EXEC_TRANSPORT_COUNT) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "unknown transport '%.60s'%s", name,
                     text_suggestion(name, exec_transport_names, EXEC_TRANSPORT_COUNT, suggestion));
}

status exec_transport_meet(exec_endpoint *endpoint, error_message *err)
{
    const exec_transport *transport = endpoint->transport;
    const uint64_t key = exec_note_key(EXEC_NOTE_MEETING);
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

status exec_transport_regroup(exec_endpoint *endpoint, const int *place, int line_ranks,
                              error_message *err)
{
    (void)place;
    (void)line_ranks;
    return exec_transport_meet(endpoint, err);
}

int64_t exec_transport_now_ns(const exec_endpoint *endpoint)
{
    (void)endpoint;
    return exec_monotonic_ns();
}

static status find_runner(const char *name, exec_transport_runner **run, error_message *err)
{
    const loadable *module = NULL;
    *run = runners[find(name)];
    if (*run != NULL) return STATUS_OK;
    TRY(loadable_open(name, &module, err));
    *run = (exec_transport_runner *)module->function;
    return STATUS_OK;
}

status exec_transport_run(const char *name, const exec_transport_options *options,
                          exec_rank_body *body, void *context, error_message *err)
{
    exec_transport_options complete = *options;
    exec_transport_runner *run = NULL;
    int abandoned_rank_count;
    TRY(check_name(name, err));
    if (options->rank_count < 1 || options->rank_count > BAL_RANKS_MAX) {
        return error_set(err, STATUS_INVALID, "%d ranks: outside [1, %d]", options->rank_count,
                         BAL_RANKS_MAX);
    }
    if (complete.abandoned_rank_count == NULL) {
        complete.abandoned_rank_count = &abandoned_rank_count;
    }
    *complete.abandoned_rank_count = 0;
    TRY(find_runner(name, &run, err));
    if (complete.speaks == NULL) {
        if (!process.has_run) process.speaks = launcher_rank() == 0;
        process.has_run = true;
        complete.speaks = &process.speaks;
    }
    return run(&complete, body, context, err);
}

status exec_transport_check(const char *name, const char *device, error_message *err)
{
    const char *variable = NULL;
    const int count = launcher_process_count(&variable);
    if (strcmp(name, "nccl") == 0 && strcmp(device, "cuda") != 0) {
        return error_set(err, STATUS_INVALID,
                         "--transport nccl: moves the memory of GPUs; device %s has none", device);
    }
    if (strcmp(name, "local") != 0 || count == 1) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s=%d: a launcher has started several processes, but --transport local has "
                     "all ranks in one; give --transport mpi or tcp",
                     variable, count);
}

bool exec_transport_is_leader(const char *name)
{
    if (find(name) == EXEC_TRANSPORT_COUNT) return false;
    if (strcmp(name, "local") == 0) return true;
    return process.has_run ? process.speaks : launcher_rank() == 0;
}

status exec_transport_end(const char *name, status ended, error_message *err)
{
    const struct timespec patience = {.tv_sec = 5};
    if (ended == STATUS_OK || exec_transport_is_leader(name)) return ended;
    nanosleep(&patience, NULL);
    if (!process.has_run) return error_prefix(err, ended, "rank %d", launcher_rank());
    if (err != NULL) err->message[0] = '\0';
    return ended;
}
