/// The transport between processes that a launcher has started, in the module dynmo_mpi.so.
///
/// Messages are MPI's (mpi_mail.h). MPI says by polling only that one has come, so on one machine
/// the sender also rings the receiver's bell (node.h), and who waits sleeps until then. Between
/// machines, who waits looks every so often.
///
/// After a failure MPI_Finalize would wait for the lost rank for ever, so nobody calls it: the
/// processes end with the status of the run, and the launcher, which sees that, ends what is left.
#include "base/arena.h"
#include "base/loadable.h"
#include "exec/check.h"
#include "exec/monotonic_clock.h"
#include "exec/punctual_thread.h"
#include "exec/transport/mpi_mail.h"
#include "exec/transport/node.h"
#include "exec/transport/transports.h"

#include <mpi.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NODE_ALIGNMENT = 64 };
static const int64_t look_after_others_every_ns = 100000000;
static const int64_t beat_every_ns = 1000000000;
static const int64_t others_first_ns = 300000000;
static const int64_t nap_min_ns = 50000;   // between looks where no bell is rung
static const int64_t nap_max_ns = 2000000; // and after many in vain

/// What the transport tells its own; the last part of a key.
typedef enum note {
    NOTE_FAILURE, // to every rank of other nodes: an exec_node_failure
    NOTE_BEAT,    // to one rank of every other node: something has moved here
    NOTE_DONE,    // to rank 0: the body has ended well
    NOTE_END,     // of rank 0: all have
    NOTE_SENT,    // to rank 0: how many messages of ops went to each rank
    NOTE_EXPECT,  // of rank 0: how many come from all
} note;

typedef struct mpi_world {
    const exec_transport_options *options;
    exec_endpoint *endpoint; // in the node's memory
    MPI_Comm node_comm;
    MPI_Win window; // the node's memory
    exec_node node;
    int *node_index; // [rank_count] -1: on another node
    int *node_first; // [rank_count] first world rank of that rank's node
    bool is_alone;   // no other node
    exec_mail *mail;
    int regroup_count;
    int64_t *counts; // [2][rank_count] scratch
    int64_t watched_ns;
    int64_t beat_ns;
    uint64_t beat_moves;
    int64_t interrupted_ns; // when it was seen first; 0: not yet
    bool failure_told;      // to the other nodes
} mpi_world;

/// MPI is opened once in a process, and so this is the process's.
static struct {
    bool is_open;
    bool has_failed; // then it is not closed
    int rank;
    int speaker; // the rank that prints
} process;

static void sleep_to(int64_t until_ns)
{
    const struct timespec until = exec_timespec_of(until_ns);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static uint64_t note_key(note what, int sequence)
{
    return exec_message_key(EXEC_MESSAGE_GROUP, sequence, EXEC_STAGE_OF_TRANSPORT, (int)what);
}

static status post_note(mpi_world *all, int to, note what, const void *payload,
                        int64_t payload_bytes, error_message *err)
{
    const exec_message head = {
        .key = note_key(what, 0), .sent_ns = exec_monotonic_ns(), .payload_bytes = payload_bytes};
    return exec_mail_post(all->mail, to, &head, payload, err);
}

// Failure

/// Tells the other nodes. What cannot be sent any more is not: their launcher ends them.
static void tell_failure(mpi_world *all)
{
    if (all->failure_told) return;
    all->failure_told = true;
    const exec_node_failure *failure = exec_node_first_failure(&all->node);
    for (int rank = 0; rank < all->endpoint->rank_count; rank++) {
        if (all->node_index[rank] >= 0) continue;
        (void)post_note(all, rank, NOTE_FAILURE, failure, sizeof *failure, NULL);
    }
}

/// Reads what the other nodes tell.
static void read_notes(mpi_world *all)
{
    exec_message head;
    const uint64_t beat_key = note_key(NOTE_BEAT, 0);
    const uint64_t failure_key = note_key(NOTE_FAILURE, 0);
    for (int rank = 0; rank < all->endpoint->rank_count; rank++) {
        exec_node_failure failure;
        while (all->node_index[rank] < 0 && exec_mail_has(all->mail, rank, beat_key, NULL)) {
            exec_mail_take(all->mail, rank, beat_key, &head, NULL, 0);
            exec_node_note_beat(&all->node);
        }
        if (all->node_index[rank] >= 0 || !exec_mail_has(all->mail, rank, failure_key, NULL)) {
            continue;
        }
        exec_mail_take(all->mail, rank, failure_key, &head, &failure, sizeof failure);
        all->failure_told = true;
        exec_node_fail(&all->node, &failure);
    }
}

/// Makes an interruption the failure of the run. A launcher that sees a rank die interrupts the
/// others: so a lost rank is looked for first, and other nodes are given a moment to tell of
/// theirs.
static void heed_interrupt(mpi_world *all)
{
    static const exec_node_failure interrupted = {
        .code = STATUS_BACKEND, .lost_rank = -1, .message = "interrupted"};
    exec_node_watch(&all->node, all->is_alone);
    if (all->interrupted_ns == 0) all->interrupted_ns = exec_monotonic_ns();
    if (!all->is_alone && exec_monotonic_ns() - all->interrupted_ns < others_first_ns) return;
    exec_node_fail(&all->node, &interrupted);
}

/// STATUS_BACKEND if the run has failed or is interrupted.
static status check(mpi_world *all, error_message *err)
{
    const atomic_bool *interrupt = all->options->interrupt;
    if (!all->is_alone) read_notes(all);
    if (interrupt != NULL && atomic_load(interrupt)) heed_interrupt(all);
    if (!exec_node_has_failed(&all->node)) return STATUS_OK;
    tell_failure(all);
    return error_set(err, STATUS_BACKEND, "%s", exec_node_first_failure(&all->node)->message);
}

/// Tells the other nodes, once in a while, that something has moved on this one.
static status beat(mpi_world *all, int64_t now_ns, error_message *err)
{
    const uint64_t moves = exec_node_move_count(&all->node);
    if (all->is_alone || now_ns - all->beat_ns < beat_every_ns) return STATUS_OK;
    all->beat_ns = now_ns;
    if (moves == all->beat_moves) return STATUS_OK;
    all->beat_moves = moves;
    for (int rank = 0; rank < all->endpoint->rank_count; rank++) {
        if (all->node_index[rank] >= 0 || all->node_first[rank] != rank) continue;
        TRY(post_note(all, rank, NOTE_BEAT, NULL, 0, err));
    }
    return STATUS_OK;
}

// Waiting

/// What a wait does now and then, whatever it waits for.
static status tend(mpi_world *all, error_message *err)
{
    const int64_t now_ns = exec_monotonic_ns();
    if (now_ns - all->watched_ns >= look_after_others_every_ns) {
        all->watched_ns = now_ns;
        exec_node_watch(&all->node, all->is_alone);
        TRY(beat(all, now_ns, err));
    }
    return check(all, err);
}

/// Sleeps until something may have come, given the bell from before the last look.
static void nap(const mpi_world *all, uint32_t bell, int64_t *nap_ns)
{
    int64_t limit_ns = look_after_others_every_ns;
    if (exec_mail_is_under_way(all->mail) || exec_mail_is_rung(all->mail))
        limit_ns = nap_max_ns / 2;
    if (!all->is_alone && limit_ns > *nap_ns) limit_ns = *nap_ns;
    if (*nap_ns < nap_max_ns) *nap_ns *= 2;
    exec_node_sleep(&all->node, bell, exec_monotonic_ns() + limit_ns);
}

/// Looks whether a message is there.
static status look_for(mpi_world *all, int from, uint64_t key, bool *is_there, error_message *err)
{
    TRY(exec_mail_look(all->mail, err));
    *is_there = exec_mail_has(all->mail, from, key, NULL);
    return STATUS_OK;
}

/// Waits until a message is there.
static status await(mpi_world *all, int from, uint64_t key, error_message *err)
{
    int64_t nap_ns = nap_min_ns;
    bool is_there = false;
    TRY(look_for(all, from, key, &is_there, err));
    while (!is_there) {
        exec_node_note_wait(&all->node, from, key, 0);
        const uint32_t bell = exec_node_bell(&all->node);
        TRY(look_for(all, from, key, &is_there, err));
        if (is_there) break;
        TRY(tend(all, err));
        nap(all, bell, &nap_ns);
    }
    return STATUS_OK;
}

// The table

static status mpi_send(exec_endpoint *endpoint, int to, const exec_message *head,
                       const void *payload, error_message *err)
{
    mpi_world *all = endpoint->state;
    assert(to >= 0 && to < endpoint->rank_count);
    exec_message stamped = *head;
    if (exec_node_has_failed(&all->node)) return check(all, err);
    stamped.sent_ns = exec_monotonic_ns();
    TRY(exec_mail_post(all->mail, to, &stamped, payload, err));
    exec_node_note_move(&all->node);
    return STATUS_OK;
}

static status mpi_receive(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head,
                          void *payload, int64_t capacity_bytes, error_message *err)
{
    mpi_world *all = endpoint->state;
    exec_message taken;
    assert(from >= 0 && from < endpoint->rank_count);
    const status code = await(all, from, key, err);
    exec_node_note_wait(&all->node, -1, 0, 0);
    exec_node_note_move(&all->node);
    if (code != STATUS_OK) return code;
    exec_mail_take(all->mail, from, key, &taken, payload, capacity_bytes);
    if (head != NULL) *head = taken;
    const int64_t bytes = taken.payload_bytes;
    if (bytes <= capacity_bytes) return STATUS_OK;
    return error_set(err, STATUS_BACKEND,
                     "a message of %" PRId64 " bytes from rank %d, where at most %" PRId64
                     " are expected",
                     bytes, from, capacity_bytes);
}

/// What MPI refuses here it refuses the next receive too, which can say so.
static bool mpi_is_there(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head)
{
    mpi_world *all = endpoint->state;
    return exec_mail_look(all->mail, NULL) == STATUS_OK &&
           exec_mail_has(all->mail, from, key, head);
}

/// Messages do not wake it, so that it wakes when it wants to. But MPI gets on with what it has to
/// do for messages under way.
static status mpi_sleep_until(exec_endpoint *endpoint, int64_t until_ns, error_message *err)
{
    mpi_world *all = endpoint->state;
    status code = tend(all, err);
    for (int64_t now_ns = exec_monotonic_ns(); code == STATUS_OK && now_ns < until_ns;
         now_ns = exec_monotonic_ns()) {
        const bool is_moving = exec_mail_is_under_way(all->mail);
        const int64_t step_ns = is_moving ? nap_max_ns / 2 : look_after_others_every_ns;
        exec_node_note_wait(&all->node, -1, 0, until_ns);
        sleep_to(until_ns - now_ns > step_ns ? now_ns + step_ns : until_ns);
        if (is_moving) code = exec_mail_push_on(all->mail, err);
        if (code == STATUS_OK) code = tend(all, err);
    }
    exec_node_note_wait(&all->node, -1, 0, 0);
    exec_node_note_move(&all->node);
    return code;
}

static int64_t mpi_now_ns(const exec_endpoint *endpoint)
{
    (void)endpoint;
    return exec_monotonic_ns();
}

/// Waits until MPI needs no memory of this rank's messages any more, and as many messages of ops
/// have come.
static status settle(mpi_world *all, int64_t received_count, error_message *err)
{
    int64_t nap_ns = nap_min_ns;
    for (;;) {
        exec_node_note_wait(&all->node, all->endpoint->rank, 0, 0);
        const uint32_t bell = exec_node_bell(&all->node);
        TRY(exec_mail_look(all->mail, err));
        if (!exec_mail_is_leaving(all->mail) &&
            exec_mail_received_count(all->mail) >= received_count) {
            break;
        }
        TRY(tend(all, err));
        nap(all, bell, &nap_ns);
    }
    exec_node_note_wait(&all->node, -1, 0, 0);
    return STATUS_OK;
}

/// How many messages of ops are to come to this rank in all, since the last regroup: the sum of
/// what the others have sent, by way of rank 0.
static status exchange_counts(mpi_world *all, int64_t *expected, error_message *err)
{
    exec_endpoint *endpoint = all->endpoint;
    const int rank_count = endpoint->rank_count;
    const int64_t *own = exec_mail_sent_counts(all->mail);
    const int64_t row_bytes = rank_count * (int64_t)sizeof *own;
    const exec_message sent = {.key = note_key(NOTE_SENT, all->regroup_count),
                               .payload_bytes = row_bytes};
    const exec_message expect = {.key = note_key(NOTE_EXPECT, all->regroup_count),
                                 .payload_bytes = sizeof *expected};
    if (endpoint->rank != 0) {
        TRY(mpi_send(endpoint, 0, &sent, own, err));
        return mpi_receive(endpoint, 0, expect.key, NULL, expected, sizeof *expected, err);
    }
    int64_t *sums = all->counts;
    int64_t *row = all->counts + rank_count;
    memcpy(sums, own, (size_t)row_bytes);
    for (int from = 1; from < rank_count; from++) {
        TRY(mpi_receive(endpoint, from, sent.key, NULL, row, row_bytes, err));
        for (int to = 0; to < rank_count; to++) {
            sums[to] += row[to];
        }
    }
    for (int to = 1; to < rank_count; to++) {
        TRY(mpi_send(endpoint, to, &expect, &sums[to], err));
    }
    *expected = sums[0];
    return STATUS_OK;
}

/// First every message is taken that the old group has sent: a communicator that is given up would
/// lose it. So all ranks have come before the first blocks in MPI's collective, which does not see
/// failures.
static status mpi_regroup(exec_endpoint *endpoint, const bool *is_active, error_message *err)
{
    mpi_world *all = endpoint->state;
    int64_t expected = 0;
    TRY(exchange_counts(all, &expected, err));
    TRY(settle(all, expected, err));
    all->regroup_count++;
    return exec_mail_regroup(all->mail, is_active, err);
}

static const exec_transport transport_mpi = {
    .name = "mpi",
    .send = mpi_send,
    .receive = mpi_receive,
    .is_there = mpi_is_there,
    .sleep_until = mpi_sleep_until,
    .now_ns = mpi_now_ns,
    .regroup = mpi_regroup,
};

// Begin and end of a run

static void close_mpi(void)
{
    if (!process.has_failed) MPI_Finalize();
}

/// Opens MPI at the first run. Ranks that wait inside MPI, as all do while they start and end, give
/// way to others: Open MPI asks the environment whether they shall.
static status open_mpi(error_message *err)
{
    int threads = 0;
    if (process.is_open) return STATUS_OK;
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    TRY_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &threads));
    process.is_open = true;
    if (atexit(close_mpi) != 0) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    TRY_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &process.rank));
    return STATUS_OK;
}

static status check_rank_count(const exec_transport_options *options, error_message *err)
{
    int rank_count = 0;
    TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &rank_count));
    if (rank_count == options->rank_count) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "transport 'mpi': %d ranks are needed, %d were started; start as many with "
                     "mpirun -n %d",
                     options->rank_count, rank_count, options->rank_count);
}

/// The ranks that share memory. DYNMO_NODE_RANKS=N takes N at a time for a node, to try out on one
/// machine what runs between several.
static status find_node(mpi_world *all, error_message *err)
{
    int index = 0;
    TRY_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, process.rank, MPI_INFO_NULL,
                                &all->node_comm));
    TRY_MPI(MPI_Comm_rank(all->node_comm, &index));
    const char *text = getenv("DYNMO_NODE_RANKS");
    const int node_ranks = text != NULL ? atoi(text) : 0;
    if (node_ranks < 1) return STATUS_OK;
    MPI_Comm whole = all->node_comm;
    TRY_MPI(MPI_Comm_split(whole, index / node_ranks, index, &all->node_comm));
    TRY_MPI(MPI_Comm_free(&whole));
    return STATUS_OK;
}

/// Shares the node's memory, clear, and finds out who else is on it.
static status join_node(mpi_world *all, error_message *err)
{
    int self = 0;
    int count = 0;
    TRY_MPI(MPI_Comm_rank(all->node_comm, &self));
    TRY_MPI(MPI_Comm_size(all->node_comm, &count));
    // Memory begins where it likes; nodes begin at a cache line.
    const MPI_Aint bytes = self == 0 ? (MPI_Aint)exec_node_bytes(count) + NODE_ALIGNMENT : 0;
    MPI_Aint there = 0;
    int unit = 0;
    char *memory = NULL;
    TRY_MPI(
        MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, all->node_comm, &memory, &all->window));
    TRY_MPI(MPI_Win_shared_query(all->window, 0, &there, &unit, &memory));
    if (self == 0) memset(memory, 0, (size_t)there);
    TRY_MPI(MPI_Barrier(all->node_comm));
    memory += (NODE_ALIGNMENT - (uintptr_t)memory % NODE_ALIGNMENT) % NODE_ALIGNMENT;
    exec_node_join(&all->node, memory, self, count, process.rank, all->options->watchdog_ns);
    all->endpoint = exec_node_endpoint(&all->node);
    TRY_MPI(MPI_Barrier(all->node_comm));
    exec_node_watch(&all->node, true);

    int first = process.rank;
    TRY_MPI(MPI_Bcast(&first, 1, MPI_INT, 0, all->node_comm));
    TRY_MPI(MPI_Allgather(&first, 1, MPI_INT, all->node_first, 1, MPI_INT, MPI_COMM_WORLD));
    TRY_MPI(MPI_Allgather(&self, 1, MPI_INT, all->node_index, 1, MPI_INT, MPI_COMM_WORLD));
    for (int rank = 0; rank < all->options->rank_count; rank++) {
        if (all->node_first[rank] != first) all->node_index[rank] = -1;
    }
    all->is_alone = count == all->options->rank_count;
    return STATUS_OK;
}

/// All arrays of the world; false if out of memory.
static bool take_arrays(mpi_world *all, arena *memory, size_t rank_count)
{
    if (memory == NULL) return false;
    all->node_index = arena_array(memory, rank_count, sizeof *all->node_index);
    all->node_first = arena_array(memory, rank_count, sizeof *all->node_first);
    all->counts = arena_array(memory, 2 * rank_count, sizeof *all->counts);
    return all->node_index != NULL && all->node_first != NULL && all->counts != NULL;
}

static status create_world(mpi_world *all, arena *memory, error_message *err)
{
    const int rank_count = all->options->rank_count;
    int has_memory = take_arrays(all, memory, (size_t)rank_count);
    TRY_MPI(MPI_Allreduce(MPI_IN_PLACE, &has_memory, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    if (has_memory == 0) {
        return error_set(err, STATUS_NO_MEMORY, "out of memory for %d ranks", rank_count);
    }
    TRY(find_node(all, err));
    TRY(join_node(all, err));
    TRY(exec_mail_open(&all->node, all->node_index, process.rank, rank_count, memory, &all->mail,
                       err));
    all->endpoint->transport = &transport_mpi;
    all->endpoint->rank = process.rank;
    all->endpoint->rank_count = rank_count;
    all->endpoint->state = all;
    return STATUS_OK;
}

/// All ranks have ended well.
static status close_world(mpi_world *all, error_message *err)
{
    TRY(exec_mail_close(all->mail, err));
    TRY_MPI(MPI_Win_free(&all->window));
    TRY_MPI(MPI_Comm_free(&all->node_comm));
    return STATUS_OK;
}

/// Waits until all ranks have ended well.
static status meet_at_the_end(mpi_world *all, error_message *err)
{
    exec_endpoint *endpoint = all->endpoint;
    const exec_message done = {.key = note_key(NOTE_DONE, 0)};
    const exec_message end = {.key = note_key(NOTE_END, 0)};
    exec_activity_set_phase(&endpoint->activity, 0, EXEC_PHASE_NONE);
    TRY(settle(all, 0, err));
    if (endpoint->rank != 0) {
        TRY(mpi_send(endpoint, 0, &done, NULL, err));
        return mpi_receive(endpoint, 0, end.key, NULL, NULL, 0, err);
    }
    for (int rank = 1; rank < endpoint->rank_count; rank++) {
        TRY(mpi_receive(endpoint, rank, done.key, NULL, NULL, 0, err));
    }
    for (int rank = 1; rank < endpoint->rank_count; rank++) {
        TRY(mpi_send(endpoint, rank, &end, NULL, err));
    }
    return settle(all, 0, err);
}

/// Makes the failure of this rank's body that of the run, unless it is already.
static void raise_failure(mpi_world *all, status code, error_message *own)
{
    exec_node_failure failure = {.lost_rank = -1};
    failure.code = exec_activity_blame(&all->endpoint->activity, process.rank, code, own);
    snprintf(failure.message, sizeof failure.message, "%s", own->message);
    exec_node_fail(&all->node, &failure);
    tell_failure(all);
}

/// Ends a failed run on this rank. The process that ends first has the launcher end all others, so
/// that they wait until the one that prints is gone.
static void leave_failed(mpi_world *all, const exec_node_failure *failure)
{
    const int64_t begin_ns = exec_monotonic_ns();
    process.has_failed = true;
    process.speaker = failure->lost_rank == 0 && all->endpoint->rank_count > 1 ? 1 : 0;
    const int64_t notes_end_ns = begin_ns + beat_every_ns;
    while (exec_mail_is_leaving(all->mail) && !all->is_alone &&
           exec_monotonic_ns() < notes_end_ns) {
        if (exec_mail_push_on(all->mail, NULL) != STATUS_OK) break;
        sleep_to(exec_monotonic_ns() + nap_max_ns);
    }
    const int speaker_index = all->node_index[process.speaker];
    while (process.rank != process.speaker &&
           exec_monotonic_ns() < begin_ns + all->options->grace_ns) {
        if (speaker_index >= 0 && exec_node_is_gone(&all->node, speaker_index)) break;
        sleep_to(exec_monotonic_ns() + 10 * nap_max_ns);
    }
}

/// Runs the body in a world that is there, and ends the world.
static status run_in(mpi_world *all, exec_rank_body *body, void *context, error_message *err)
{
    error_message own = {0};
    status code = body(all->endpoint, context, &own);
    if (code == STATUS_OK) code = meet_at_the_end(all, &own);
    if (code == STATUS_OK) return close_world(all, err);
    if (!exec_node_has_failed(&all->node)) raise_failure(all, code, &own);
    const exec_node_failure failure = *exec_node_first_failure(&all->node);
    leave_failed(all, &failure);
    return error_set(err, failure.code, "%s", failure.message);
}

static status run(const exec_transport_options *options, exec_rank_body *body, void *context,
                  error_message *err)
{
    if (process.has_failed) {
        return error_set(err, STATUS_BACKEND,
                         "transport 'mpi': an earlier run has failed, and "
                         "left MPI unusable");
    }
    TRY(open_mpi(err));
    if (check_rank_count(options, err) != STATUS_OK) {
        process.has_failed = true; // who ends first shall not wait for the others
        return STATUS_INVALID;
    }
    exec_thread_make_punctual(options->real_time);
    mpi_world all = {.options = options};
    arena *memory = arena_create(4096);
    status code = create_world(&all, memory, err);
    if (code == STATUS_OK) code = run_in(&all, body, context, err);
    arena_destroy(memory);
    return code;
}

static bool is_leader(int launched_rank)
{
    return process.is_open ? process.rank == process.speaker : launched_rank == 0;
}

const loadable *dynmo_module(void)
{
    static const exec_transport_module transport = {.run = run, .is_leader = is_leader};
    static const loadable module = {
        .interface = LOADABLE_INTERFACE, .name = "mpi", .table = &transport};
    return &module;
}
