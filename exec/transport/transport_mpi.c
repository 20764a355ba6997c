/// The transport between processes that a launcher has started, in the module dynmo_mpi.so.
///
/// A message is one MPI message: its head and after it its payload, in lines of 64 bytes. Those of
/// ops take a communicator of the active ranks, which is split from the world's.
///
/// MPI says by polling only that a message has come. So on one machine the sender also rings the
/// receiver's bell, in memory that the processes share, and who waits sleeps until then. Between
/// machines, who waits looks every so often.
///
/// A rank that fails tells all others, and rank 0 says what it was. What the launcher sees, a rank
/// that is killed, it ends and tells itself. After a failure MPI_Finalize would wait for the lost
/// rank for ever, so nobody calls it.
#include "base/arena.h"
#include "base/loadable.h"
#include "base/status.h"
#include "exec/clock.h"
#include "exec/transport/inbox.h"
#include "exec/transport/transports.h"
#include "exec/transport/watch.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/// Returns from the calling function unless the call succeeds, with what was called, where, and
/// MPI's words in its `err`.
#define TRY_MPI(call)                                                                              \
    do {                                                                                           \
        const int try_code = (call);                                                               \
        if (try_code != MPI_SUCCESS) {                                                             \
            char try_text[MPI_MAX_ERROR_STRING] = "";                                              \
            int try_length = 0;                                                                    \
            MPI_Error_string(try_code, try_text, &try_length);                                     \
            return error_set(err, STATUS_BACKEND, "%.120s failed in %s:%d: %.200s", #call,         \
                             __FILE__, __LINE__, try_text);                                        \
        }                                                                                          \
    } while (0)

enum { LINE_BYTES = sizeof(exec_message), TAG = 0, LOOKS_IN_VAIN = 20, NODE_WAITS_FACTOR = 4 };
static const int64_t tend_every_ns = 100000000;
static const int64_t nap_min_ns = 50000;
static const int64_t nap_max_ns = 2000000;        // where no bell is rung, or messages move
static const int64_t nap_alone_max_ns = 50000000; // where each message rings
static const int64_t failure_leaves_ns = 1000000000;

/// A message that MPI still moves, here or away.
typedef struct passing {
    struct passing *next; // younger, of the same list
    MPI_Request request;
    int rank; // of the world, from whom or to whom
    exec_queued_message *message;
} passing;

typedef struct passing_list {
    passing *first; // oldest
    passing **end;  // where the next is hung
} passing_list;

typedef struct mpi_world {
    exec_inbox inbox; // first member
    const exec_transport_options *options;
    exec_endpoint *endpoint; // in the node's memory
    MPI_Comm node_comm;
    MPI_Win window;
    exec_watched *node; // ranks of this machine
    exec_watched *own;  // among them
    exec_watch watch;
    int *node_index;  // [rank_count] -1: on another machine
    bool is_alone;    // there is no other machine
    MPI_Comm world;   // a duplicate of the launcher's
    MPI_Comm active;  // that messages of ops take: world until it is split; or NULL
    int *active_rank; // [rank_count] of ranks of the world; -1: released
    int *world_rank;  // [rank_count] of active ranks
    MPI_Datatype line;
    uint32_t taken_count; // messages from this machine
    passing_list coming;
    passing_list leaving;
    int64_t tended_ns;
    exec_failure failure;
} mpi_world;

/// MPI is opened once in a process, and so this is the process's.
static struct {
    bool is_open;
    bool has_failed; // then it is not closed
    int rank;
} process;

static passing *hang(passing_list *list, int rank, exec_queued_message *message)
{
    passing *last = memory_array(1, sizeof *last);
    *last = (passing){.request = MPI_REQUEST_NULL, .rank = rank, .message = message};
    *list->end = last;
    list->end = &last->next;
    return last;
}

/// @return its message
static exec_queued_message *take_out(passing_list *list, passing **at)
{
    passing *taken = *at;
    exec_queued_message *message = taken->message;
    *at = taken->next;
    if (taken->next == NULL) list->end = at;
    free(taken);
    return message;
}

// What comes

/// Whether a bell has rung for a message that was not taken in yet. One may be taken before its
/// bell.
static bool is_rung(const mpi_world *all)
{
    return (int32_t)(atomic_load(&all->own->bell) - all->taken_count) > 0;
}

/// Makes this the failure of the run on this rank, if it is the first.
static bool take_failure(mpi_world *all, const exec_failure_note *failed)
{
    const bool is_first = exec_failure_take(&all->failure, failed);
    if (is_first) atomic_store(&all->own->has_failed, true);
    return is_first;
}

static void deliver(mpi_world *all, exec_queued_message *message)
{
    exec_failure_note failed;
    if (message->head.key != exec_note_key(EXEC_NOTE_FAILURE)) {
        exec_inbox_put(&all->inbox, message);
        return;
    }
    memcpy(&failed, message->payload, sizeof failed);
    (void)take_failure(all, &failed);
    free(message);
}

/// Whether all older messages of its sender are here: they keep their order.
static bool is_next(const mpi_world *all, const passing *one)
{
    const passing *oldest = all->coming.first;
    while (oldest->rank != one->rank) {
        oldest = oldest->next;
    }
    return oldest == one;
}

/// Lets MPI get on with messages that are under way. Of those that leave the oldest is asked after:
/// they are done about in their order, and nobody waits for the others.
static status push_on(mpi_world *all, error_message *err)
{
    int is_done = 0;
    for (passing **at = &all->coming.first; *at != NULL;) {
        TRY_MPI(MPI_Test(&(*at)->request, &is_done, MPI_STATUS_IGNORE));
        if (is_done != 0 && is_next(all, *at)) {
            deliver(all, take_out(&all->coming, at));
        } else {
            at = &(*at)->next;
        }
    }
    while (all->leaving.first != NULL) {
        TRY_MPI(MPI_Test(&all->leaving.first->request, &is_done, MPI_STATUS_IGNORE));
        if (is_done == 0) break;
        free(take_out(&all->leaving, &all->leaving.first));
    }
    return STATUS_OK;
}

/// Takes in all that has come through a communicator.
static status look_at(mpi_world *all, MPI_Comm comm, bool *has_found, error_message *err)
{
    for (;;) {
        int is_there = 0;
        int lines = 0;
        MPI_Message message;
        MPI_Status found;
        if (comm == MPI_COMM_NULL) return STATUS_OK;
        TRY_MPI(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &is_there, &message, &found));
        if (is_there == 0) return STATUS_OK;
        TRY_MPI(MPI_Get_count(&found, all->line, &lines));
        const int from = comm == all->world ? found.MPI_SOURCE : all->world_rank[found.MPI_SOURCE];
        const exec_message room = {.payload_bytes = (lines - 1) * (int64_t)LINE_BYTES};
        passing *one = hang(&all->coming, from, exec_queued_message_make(from, &room));
        if (all->node_index[from] >= 0) all->taken_count++;
        *has_found = true;
        TRY_MPI(MPI_Imrecv(&one->message->head, lines, all->line, &message, &one->request));
    }
}

/// Takes in all that has come. MPI is not asked in vain where bells tell how many there are: when
/// it has nothing it lets others run first, which on a busy machine takes long. What is rung for
/// comes at once, but for what MPI itself holds back: hence the limit.
static status look(mpi_world *all, error_message *err)
{
    bool has_found = !all->is_alone;
    for (int vain = 0; vain < LOOKS_IN_VAIN && (has_found || is_rung(all)); vain++) {
        has_found = false;
        TRY(look_at(all, all->active, &has_found, err));
        if (all->active != all->world) TRY(look_at(all, all->world, &has_found, err));
        if (has_found) vain = 0;
    }
    // What MPI moves in steps needs some before it is there.
    for (int steps = 0; steps < 8 && all->coming.first != NULL; steps++) {
        TRY(push_on(all, err));
    }
    return all->leaving.first != NULL ? push_on(all, err) : STATUS_OK;
}

// What goes

static void ring(exec_watched *rank)
{
    atomic_fetch_add(&rank->bell, 1);
    if (atomic_load(&rank->is_asleep) != 0) {
        syscall(SYS_futex, &rank->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

static status post(mpi_world *all, int to, const exec_message *head, const void *payload,
                   error_message *err)
{
    const int64_t bytes = head->payload_bytes;
    const int64_t lines = 1 + (bytes + LINE_BYTES - 1) / LINE_BYTES;
    const bool of_op = exec_message_is_of_op(head->key);
    MPI_Comm comm = of_op ? all->active : all->world;
    const int rank = of_op ? all->active_rank[to] : to;
    assert(bytes >= 0 && lines <= INT_MAX);
    assert(comm != MPI_COMM_NULL && rank >= 0); // released ranks exchange no messages of ops
    exec_queued_message *sent = exec_queued_message_of(all->endpoint->rank, head, payload);
    passing *one = hang(&all->leaving, to, sent);
    TRY_MPI(MPI_Isend(&sent->head, (int)lines, all->line, rank, TAG, comm, &one->request));
    if (all->node_index[to] >= 0) ring(&all->node[all->node_index[to]]);
    return push_on(all, err);
}

// Failure

/// Fails the run, and tells the others unless they have told it. What cannot be sent any more is
/// not: the launcher ends those.
static void fail(mpi_world *all, const exec_failure_note *failed)
{
    const exec_message head = {.key = exec_note_key(EXEC_NOTE_FAILURE),
                               .payload_bytes = sizeof *failed};
    if (!take_failure(all, failed)) return;
    for (int rank = 0; rank < all->endpoint->rank_count; rank++) {
        if (rank != all->endpoint->rank) (void)post(all, rank, &head, failed, NULL);
    }
}

/// What a wait does now and then, whatever it waits for. STATUS_BACKEND if the run has failed.
static status tend(mpi_world *all, error_message *err)
{
    const int64_t now_ns = exec_monotonic_ns();
    const atomic_bool *interrupt = all->options->interrupt;
    exec_failure_note failed = {0};
    if (now_ns - all->tended_ns >= tend_every_ns || (interrupt != NULL && atomic_load(interrupt))) {
        all->tended_ns = now_ns;
        if (exec_watch_look(&all->watch, &failed) != STATUS_OK) fail(all, &failed);
    }
    return exec_failure_tell(&all->failure, err);
}

// Waiting

/// Sleeps until something may have come, given the bell from before the last look.
static void nap(mpi_world *all, uint32_t bell, int64_t *nap_ns)
{
    const bool is_moving = all->coming.first != NULL || all->leaving.first != NULL || is_rung(all);
    const int64_t limit_ns = all->is_alone && !is_moving ? nap_alone_max_ns : *nap_ns;
    const struct timespec until = exec_timespec_of(exec_monotonic_ns() + limit_ns);
    if (*nap_ns < nap_max_ns) *nap_ns *= 2;
    // Who rings either sees that this rank is asleep, or has changed the bell before the kernel
    // compares it: no ring is lost.
    atomic_store(&all->own->is_asleep, 1);
    syscall(SYS_futex, &all->own->bell, FUTEX_WAIT_BITSET, bell, &until, NULL,
            FUTEX_BITSET_MATCH_ANY);
    atomic_store(&all->own->is_asleep, 0);
}

/// Waits until a message is there.
static status await(mpi_world *all, int from, uint64_t key, error_message *err)
{
    int64_t nap_ns = nap_min_ns;
    for (;;) {
        const uint32_t bell = atomic_load(&all->own->bell);
        TRY(look(all, err));
        if (exec_inbox_has(all->endpoint, from, key, NULL)) return STATUS_OK;
        TRY(tend(all, err));
        atomic_store(&all->own->waits_for, from + 1);
        nap(all, bell, &nap_ns);
    }
}

/// Waits until MPI needs no memory of this rank's messages any more.
static status settle(mpi_world *all, error_message *err)
{
    int64_t nap_ns = nap_min_ns;
    while (all->leaving.first != NULL) {
        const uint32_t bell = atomic_load(&all->own->bell);
        TRY(look(all, err));
        TRY(tend(all, err));
        if (all->leaving.first == NULL) break;
        atomic_store(&all->own->waits_for, all->leaving.first->rank + 1);
        nap(all, bell, &nap_ns);
    }
    atomic_store(&all->own->waits_for, 0);
    return STATUS_OK;
}

// The table

static status mpi_send(exec_endpoint *endpoint, int to, const exec_message *head,
                       const void *payload, error_message *err)
{
    mpi_world *all = endpoint->state;
    assert(to >= 0 && to < endpoint->rank_count);
    TRY(exec_failure_tell(&all->failure, err));
    TRY(post(all, to, head, payload, err));
    exec_inbox_note_move(&all->inbox);
    return STATUS_OK;
}

static status mpi_receive(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head,
                          void *payload, int64_t capacity_bytes, error_message *err)
{
    assert(from >= 0 && from < endpoint->rank_count);
    TRY(await(endpoint->state, from, key, err));
    return exec_inbox_receive(endpoint, from, key, head, payload, capacity_bytes, err);
}

/// What MPI refuses here it refuses the next receive too, which can say so.
static bool mpi_is_there(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head)
{
    return look(endpoint->state, NULL) == STATUS_OK && exec_inbox_has(endpoint, from, key, head);
}

/// Messages do not wake it, so that it wakes when it wants to. But MPI gets on with what it has to
/// do for messages under way.
static status mpi_sleep_until(exec_endpoint *endpoint, int64_t until_ns, error_message *err)
{
    mpi_world *all = endpoint->state;
    status code = tend(all, err);
    atomic_store(&all->own->sleep_until_ns, until_ns);
    for (int64_t now_ns = exec_monotonic_ns(); code == STATUS_OK && now_ns < until_ns;
         now_ns = exec_monotonic_ns()) {
        const bool is_moving = all->coming.first != NULL || all->leaving.first != NULL;
        const int64_t step_ns = is_moving ? nap_max_ns / 2 : tend_every_ns;
        const struct timespec until =
            exec_timespec_of(until_ns - now_ns > step_ns ? now_ns + step_ns : until_ns);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        if (is_moving) code = push_on(all, err);
        if (code == STATUS_OK && exec_monotonic_ns() < until_ns) code = look(all, err);
        if (code == STATUS_OK) code = tend(all, err);
    }
    atomic_store(&all->own->sleep_until_ns, 0);
    exec_inbox_note_move(&all->inbox);
    return code;
}

/// As far as ranks of this machine have heard of it.
static bool mpi_has_failed(const exec_endpoint *endpoint)
{
    const mpi_world *all = endpoint->state;
    for (int index = 0; index < all->watch.rank_count; index++) {
        if (atomic_load(&all->node[index].has_failed)) return true;
    }
    return false;
}

/// All ranks come before the first blocks in MPI's collective, which does not see failures.
static status mpi_regroup(exec_endpoint *endpoint, const int *place, int line_ranks,
                          error_message *err)
{
    (void)line_ranks;
    mpi_world *all = endpoint->state;
    int active_count = 0;
    TRY(settle(all, err));
    TRY(exec_transport_meet(endpoint, err));
    for (int rank = 0; rank < endpoint->rank_count; rank++) {
        all->active_rank[rank] = place[rank] >= 0 ? active_count : -1;
        if (place[rank] >= 0) all->world_rank[active_count++] = rank;
    }
    if (all->active != all->world && all->active != MPI_COMM_NULL) {
        TRY_MPI(MPI_Comm_free(&all->active));
    }
    TRY_MPI(MPI_Comm_split(all->world, place[endpoint->rank] >= 0 ? 0 : MPI_UNDEFINED,
                           endpoint->rank, &all->active));
    if (all->active == MPI_COMM_NULL) return STATUS_OK;
    TRY_MPI(MPI_Comm_set_errhandler(all->active, MPI_ERRORS_RETURN));
    return STATUS_OK;
}

static const exec_transport transport_mpi = {
    .name = "mpi",
    .send = mpi_send,
    .receive = mpi_receive,
    .is_there = mpi_is_there,
    .sleep_until = mpi_sleep_until,
    .now_ns = exec_transport_now_ns,
    .has_failed = mpi_has_failed,
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
    (void)atexit(close_mpi);
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
    const char *text = getenv("DYNMO_NODE_RANKS");
    const int node_ranks = text != NULL ? atoi(text) : 0;
    MPI_Comm whole = MPI_COMM_NULL;
    TRY_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, process.rank, MPI_INFO_NULL,
                                &whole));
    TRY_MPI(MPI_Comm_rank(whole, &index));
    TRY_MPI(MPI_Comm_split(whole, node_ranks > 0 ? index / node_ranks : 0, index, &all->node_comm));
    TRY_MPI(MPI_Comm_free(&whole));
    return STATUS_OK;
}

/// Shares the node's memory, clear, and finds out who else is on it.
static status join_node(mpi_world *all, error_message *err)
{
    int own[2] = {process.rank, 0}; // first rank of the node, and the index on it
    int count = 0;
    int unit = 0;
    MPI_Aint bytes = 0;
    TRY_MPI(MPI_Bcast(&own[0], 1, MPI_INT, 0, all->node_comm));
    TRY_MPI(MPI_Comm_rank(all->node_comm, &own[1]));
    TRY_MPI(MPI_Comm_size(all->node_comm, &count));
    if (own[1] == 0) bytes = (MPI_Aint)((size_t)count * sizeof *all->node);
    TRY_MPI(
        MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, all->node_comm, &all->node, &all->window));
    TRY_MPI(MPI_Win_shared_query(all->window, 0, &bytes, &unit, &all->node));
    if (own[1] == 0) memset((void *)all->node, 0, (size_t)bytes);
    TRY_MPI(MPI_Barrier(all->node_comm));
    all->own = &all->node[own[1]];
    all->endpoint = &all->own->endpoint;
    all->is_alone = count == all->options->rank_count;
    all->watch = (exec_watch){
        .ranks = all->node,
        .rank_count = count,
        .watchdog_ns = all->options->watchdog_ns,
        .waiting_ns = all->options->watchdog_ns * (all->is_alone ? 1 : NODE_WAITS_FACTOR),
        .interrupt = all->options->interrupt,
    };
    int *pairs = memory_array((size_t)all->options->rank_count, sizeof own);
    const int gathered = MPI_Allgather(own, 2, MPI_INT, pairs, 2, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 0; rank < all->options->rank_count; rank++) {
        all->node_index[rank] = pairs[2 * rank] == own[0] ? pairs[2 * rank + 1] : -1;
    }
    free(pairs);
    TRY_MPI(gathered);
    return STATUS_OK;
}

static status create_world(mpi_world *all, arena *memory, error_message *err)
{
    const int rank_count = all->options->rank_count;
    all->node_index = arena_array(memory, (size_t)rank_count, sizeof *all->node_index);
    all->active_rank = arena_array(memory, (size_t)rank_count, sizeof *all->active_rank);
    all->world_rank = arena_array(memory, (size_t)rank_count, sizeof *all->world_rank);
    all->coming.end = &all->coming.first;
    all->leaving.end = &all->leaving.first;
    TRY(find_node(all, err));
    TRY(join_node(all, err));
    for (int rank = 0; rank < rank_count; rank++) {
        all->active_rank[rank] = all->world_rank[rank] = rank;
    }
    TRY_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &all->world));
    TRY_MPI(MPI_Comm_set_errhandler(all->world, MPI_ERRORS_RETURN));
    TRY_MPI(MPI_Type_contiguous(LINE_BYTES, MPI_BYTE, &all->line));
    TRY_MPI(MPI_Type_commit(&all->line));
    all->active = all->world;
    all->endpoint->transport = &transport_mpi;
    all->endpoint->rank = process.rank;
    all->endpoint->rank_count = rank_count;
    all->endpoint->state = all;
    exec_inbox_init(&all->inbox, all->own, &all->failure);
    TRY_MPI(MPI_Barrier(all->world)); // all know their names before anybody looks after others
    return STATUS_OK;
}

/// Waits until all ranks have ended well, and gives up the world. Messages that nobody took are
/// lost.
static status close_world(mpi_world *all, error_message *err)
{
    exec_activity_set_phase(&all->endpoint->activity, 0, EXEC_PHASE_NONE);
    TRY(settle(all, err));
    TRY(exec_transport_meet(all->endpoint, err));
    TRY(settle(all, err));
    exec_inbox_reset(&all->inbox);
    if (all->active != all->world && all->active != MPI_COMM_NULL) {
        TRY_MPI(MPI_Comm_free(&all->active));
    }
    TRY_MPI(MPI_Comm_free(&all->world));
    TRY_MPI(MPI_Type_free(&all->line));
    TRY_MPI(MPI_Win_free(&all->window));
    TRY_MPI(MPI_Comm_free(&all->node_comm));
    return STATUS_OK;
}

/// Ends a failed run on this rank: what it has told the others shall leave.
static status leave_failed(mpi_world *all, error_message *err)
{
    const int64_t end_ns = exec_monotonic_ns() + failure_leaves_ns;
    process.has_failed = true;
    while (all->leaving.first != NULL && exec_monotonic_ns() < end_ns) {
        const struct timespec step = exec_timespec_of(nap_max_ns);
        if (push_on(all, NULL) != STATUS_OK) break;
        nanosleep(&step, NULL);
    }
    return exec_failure_end(&all->failure, all->options, process.rank, err);
}

static status run(const exec_transport_options *options, exec_rank_body *body, void *context,
                  error_message *err)
{
    exec_failure_note own = {.lost_rank = -1};
    if (process.has_failed) {
        return error_set(err, STATUS_BACKEND,
                         "transport 'mpi': an earlier run has failed, and "
                         "left MPI unusable");
    }
    TRY(open_mpi(err));
    *options->speaks = process.rank == 0;
    if (check_rank_count(options, err) != STATUS_OK) {
        process.has_failed = true; // who ends first shall not wait for the others
        return STATUS_INVALID;
    }
    exec_thread_make_punctual(options->real_time);
    mpi_world all = {.options = options};
    arena *memory = arena_create(4096);
    status code = create_world(&all, memory, err);
    if (code != STATUS_OK) { // others may wait inside MPI for this rank, and none can be told
        *options->speaks = process.has_failed = true;
        (void)error_prefix(err, code, "rank %d", process.rank);
    } else {
        code = body(all.endpoint, context, &own.why);
        if (code == STATUS_OK) code = close_world(&all, &own.why);
        if (code != STATUS_OK) {
            exec_activity_blame(&all.endpoint->activity, process.rank, code, &own.why);
            fail(&all, &own);
            code = leave_failed(&all, err);
        }
    }
    arena_destroy(memory);
    return code;
}

const loadable *dynmo_module(void)
{
    static const loadable module = {
        .interface = LOADABLE_INTERFACE, .name = "mpi", .function = (void (*)(void))run};
    return &module;
}
