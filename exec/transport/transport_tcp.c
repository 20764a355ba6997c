/// The transport between processes that reach each other by TCP alone: under srun or torchrun on
/// machines without MPI, and beneath NCCL there.
///
/// The rank's body runs in a thread of its own. The thread that runs the world moves what the
/// sockets hold: it puts what comes into the rank's inbox, and sends what the rank could not send
/// at once. It also watches the rank, and tells the others when it fails or hangs. A connection
/// that ends before its rank has said that it does is a rank that is lost.
#include "base/arena.h"
#include "base/launcher.h"
#include "exec/clock.h"
#include "exec/transport/inbox.h"
#include "exec/transport/tcp_mesh.h"
#include "exec/transport/transports.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LOOK_MS = 50, WAITS_FACTOR = 4 };
static const int64_t failure_leaves_ns = 1000000000;

/// The connection to another rank. What leaves is under the world's lock.
typedef struct peer {
    int socket; // -1: this rank itself
    exec_queued_message *leaving;
    exec_queued_message **leaving_end;
    size_t left_bytes;           // of the first that leaves
    exec_message head;           // of what comes
    exec_queued_message *coming; // once its head is there
    size_t come_bytes;           // head and payload
    bool has_ended;              // nothing comes any more
} peer;

typedef struct tcp_world {
    exec_inbox inbox; // first member
    exec_transport_options options;
    exec_rank_body *body;
    void *context;
    exec_watched own;
    exec_watch watch;
    peer *peers;           // [rank_count]
    struct pollfd *polled; // [rank_count + 1]; the last is the bell
    int bell;              // rung when something shall leave, or the body has ended
    pthread_t thread;      // of the body
    exec_failure failure;
    atomic_bool has_ended; // the body
    pthread_mutex_t lock;  // of what leaves
} tcp_world;

static size_t wire_bytes(const exec_message *head)
{
    return sizeof *head + (size_t)head->payload_bytes;
}

static void ring(const tcp_world *all)
{
    const uint64_t one = 1;
    (void)!write(all->bell, &one, sizeof one);
}

// What goes

/// Sends what the socket takes. What it refuses for good the other side of the loop sees.
static void push(peer *to)
{
    while (to->leaving != NULL) {
        exec_queued_message *first = to->leaving;
        const char *bytes = (const char *)&first->head;
        const size_t total = wire_bytes(&first->head);
        const ssize_t sent =
            send(to->socket, bytes + to->left_bytes, total - to->left_bytes, MSG_NOSIGNAL);
        if (sent < 0) return;
        to->left_bytes += (size_t)sent;
        if (to->left_bytes < total) continue;
        to->left_bytes = 0;
        to->leaving = first->next;
        if (first->next == NULL) to->leaving_end = &to->leaving;
        free(first);
    }
}

static void post(tcp_world *all, int to, const exec_message *head, const void *payload)
{
    peer *there = &all->peers[to];
    exec_queued_message *sent = exec_queued_message_of(all->own.endpoint.rank, head, payload);
    if (there->socket < 0) {
        exec_inbox_put(&all->inbox, sent);
        return;
    }
    pthread_mutex_lock(&all->lock);
    *there->leaving_end = sent;
    there->leaving_end = &sent->next;
    push(there);
    const bool is_left = there->leaving != NULL;
    pthread_mutex_unlock(&all->lock);
    if (is_left) ring(all);
}

static void post_all(tcp_world *all, const exec_message *head, const void *payload)
{
    for (int rank = 0; rank < all->options.rank_count; rank++) {
        if (rank != all->own.endpoint.rank) post(all, rank, head, payload);
    }
}

/// Makes this the failure of the run on this rank, if it is the first, and tells the others, also
/// where it was heard: so that nobody takes for lost who ends because of it.
static void fail(tcp_world *all, const exec_failure_note *failed)
{
    const exec_message head = {.key = exec_note_key(EXEC_NOTE_FAILURE),
                               .payload_bytes = sizeof *failed};
    if (!exec_failure_take(&all->failure, failed)) return;
    post_all(all, &head, failed);
    exec_inbox_wake(&all->inbox);
}

// What comes

/// A whole message: a note of the transport, or one for the rank.
static void deliver(tcp_world *all, peer *from, exec_queued_message *message)
{
    const exec_message *head = &message->head;
    exec_failure_note failed;
    if (head->key == exec_note_key(EXEC_NOTE_FAILURE) && head->payload_bytes == sizeof failed) {
        memcpy(&failed, message->payload, sizeof failed);
        failed.why.message[sizeof failed.why.message - 1] = '\0';
        fail(all, &failed);
        free(message);
    } else if (head->key == exec_note_key(EXEC_NOTE_END)) {
        from->has_ended = true;
        free(message);
    } else {
        exec_inbox_note_move(&all->inbox);
        exec_inbox_put(&all->inbox, message);
    }
}

static void lose(tcp_world *all, peer *from, const char *why)
{
    const int rank = (int)(from - all->peers);
    exec_failure_note failed = {.lost_rank = rank};
    from->has_ended = true;
    error_set(&failed.why, STATUS_BACKEND, "rank %d is lost: %s", rank, why);
    fail(all, &failed);
}

/// Takes in what a socket holds.
static void take_in(tcp_world *all, peer *from)
{
    while (!from->has_ended) {
        const bool has_head = from->coming != NULL;
        char *next = has_head ? (char *)&from->coming->head : (char *)&from->head;
        const size_t total = has_head ? wire_bytes(&from->head) : sizeof from->head;
        if (from->come_bytes < total) {
            const ssize_t got =
                recv(from->socket, next + from->come_bytes, total - from->come_bytes, 0);
            if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
            if (got <= 0) {
                // A rank that dies with messages unread resets it.
                const bool is_closed = got == 0 || errno == ECONNRESET;
                lose(all, from, is_closed ? "its connection was closed" : strerror(errno));
                return;
            }
            from->come_bytes += (size_t)got;
        } else if (has_head) {
            exec_queued_message *whole = from->coming;
            from->coming = NULL;
            from->come_bytes = 0;
            deliver(all, from, whole);
        } else if (from->head.payload_bytes < 0) {
            lose(all, from, "a message of negative length");
        } else {
            from->coming = exec_queued_message_make((int)(from - all->peers), &from->head);
        }
    }
}

// The table

static status tcp_send(exec_endpoint *endpoint, int to, const exec_message *head,
                       const void *payload, error_message *err)
{
    tcp_world *all = endpoint->state;
    assert(to >= 0 && to < endpoint->rank_count && head->payload_bytes >= 0);
    TRY(exec_failure_tell(&all->failure, err));
    post(all, to, head, payload);
    exec_inbox_note_move(&all->inbox);
    return STATUS_OK;
}

static const exec_transport transport_tcp = {
    .name = "tcp",
    .send = tcp_send,
    .receive = exec_inbox_receive,
    .is_there = exec_inbox_has,
    .sleep_until = exec_inbox_sleep_until,
    .now_ns = exec_transport_now_ns,
    .has_failed = exec_inbox_has_failed,
    .regroup = exec_transport_regroup,
};

// Begin and end of a run

/// The body, and the meeting at its end: after it nobody waits for this rank any more.
static void *run_rank(void *argument)
{
    tcp_world *all = argument;
    exec_endpoint *endpoint = &all->own.endpoint;
    exec_failure_note own = {.lost_rank = -1};
    exec_thread_make_punctual(all->options.real_time);
    status code = all->body(endpoint, all->context, &own.why);
    if (code == STATUS_OK) {
        exec_activity_set_phase(&endpoint->activity, 0, EXEC_PHASE_NONE);
        code = exec_transport_meet(endpoint, &own.why);
    }
    if (code == STATUS_OK) {
        post_all(all, &(exec_message){.key = exec_note_key(EXEC_NOTE_END)}, NULL);
    } else {
        exec_activity_blame(&endpoint->activity, endpoint->rank, code, &own.why);
        fail(all, &own);
    }
    atomic_store(&all->own.has_ended, true);
    atomic_store(&all->has_ended, true);
    ring(all);
    return NULL;
}

/// Waits for the sockets, and moves what they have.
static void move(tcp_world *all)
{
    const int ranks = all->options.rank_count;
    uint64_t rung;
    for (int rank = 0; rank < ranks; rank++) {
        peer *one = &all->peers[rank];
        pthread_mutex_lock(&all->lock);
        const short leaves = one->leaving != NULL ? POLLOUT : 0;
        pthread_mutex_unlock(&all->lock);
        all->polled[rank] = (struct pollfd){.fd = one->has_ended && leaves == 0 ? -1 : one->socket,
                                            .events = (short)(POLLIN | leaves)};
    }
    all->polled[ranks] = (struct pollfd){.fd = all->bell, .events = POLLIN};
    if (poll(all->polled, (nfds_t)ranks + 1, LOOK_MS) <= 0) return;
    if (all->polled[ranks].revents != 0) (void)!read(all->bell, &rung, sizeof rung);
    for (int rank = 0; rank < ranks; rank++) {
        if (all->polled[rank].revents == 0) continue;
        take_in(all, &all->peers[rank]);
        pthread_mutex_lock(&all->lock);
        push(&all->peers[rank]);
        pthread_mutex_unlock(&all->lock);
    }
}

/// Sees to it that a rank which hangs does not keep the others waiting.
static void look_after(tcp_world *all)
{
    exec_failure_note failed = {0};
    if (atomic_load(&all->failure.has_failed) || atomic_load(&all->has_ended)) return;
    if (exec_watch_look(&all->watch, &failed) != STATUS_OK) fail(all, &failed);
}

/// Whether all that the rank has said has left, and, if it ended well, all others have ended.
static bool is_over(tcp_world *all)
{
    bool is_quiet = true;
    const bool has_failed = atomic_load(&all->failure.has_failed);
    if (!atomic_load(&all->has_ended)) return false;
    pthread_mutex_lock(&all->lock);
    for (int rank = 0; rank < all->options.rank_count; rank++) {
        const peer *one = &all->peers[rank];
        if (one->socket < 0) continue;
        is_quiet = is_quiet && (one->leaving == NULL || one->has_ended);
        is_quiet = is_quiet && (one->has_ended || has_failed);
    }
    pthread_mutex_unlock(&all->lock);
    return is_quiet;
}

/// Returns when the run is over, or some time after a failure: whether the body has come back.
static bool watch_over(tcp_world *all)
{
    int64_t body_end_ns = INT64_MAX;
    int64_t leave_end_ns = INT64_MAX;
    while (!is_over(all)) {
        const int64_t now_ns = exec_monotonic_ns();
        const bool has_ended = atomic_load(&all->has_ended);
        if (now_ns > (has_ended ? leave_end_ns : body_end_ns)) break;
        if (atomic_load(&all->failure.has_failed) && body_end_ns == INT64_MAX) {
            body_end_ns = now_ns + all->options.grace_ns;
            leave_end_ns = now_ns + failure_leaves_ns;
        }
        move(all);
        look_after(all);
    }
    return atomic_load(&all->has_ended);
}

static void init_world(tcp_world *all)
{
    const int ranks = all->options.rank_count;
    all->own.endpoint = (exec_endpoint){
        .transport = &transport_tcp, .rank = launcher_rank(), .rank_count = ranks, .state = all};
    all->watch = (exec_watch){.ranks = &all->own,
                              .rank_count = 1,
                              .watchdog_ns = all->options.watchdog_ns,
                              .waiting_ns = all->options.watchdog_ns * WAITS_FACTOR,
                              .interrupt = all->options.interrupt};
    all->peers = memory_array((size_t)ranks, sizeof *all->peers);
    for (int rank = 0; rank < ranks; rank++) {
        all->peers[rank].socket = -1;
        all->peers[rank].leaving_end = &all->peers[rank].leaving;
    }
    all->polled = memory_array((size_t)ranks + 1, sizeof *all->polled);
    all->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&all->lock, NULL);
    exec_inbox_init(&all->inbox, &all->own, &all->failure);
}

static status connect_all(tcp_world *all, error_message *err)
{
    const int ranks = all->options.rank_count;
    char host[LAUNCHER_HOST_BYTES] = "";
    exec_tcp_meeting meeting = {.rank = all->own.endpoint.rank,
                                .rank_count = ranks,
                                .host = host,
                                .patience_ns = all->options.watchdog_ns,
                                .interrupt = all->options.interrupt};
    if (ranks > 1) TRY(launcher_meeting_point(host, &meeting.port, err));
    int *sockets = memory_array((size_t)ranks, sizeof *sockets);
    const status met = exec_tcp_connect(&meeting, sockets, err);
    for (int rank = 0; rank < ranks; rank++) {
        all->peers[rank].socket = sockets[rank];
    }
    free(sockets);
    return met;
}

static void free_world(tcp_world *all)
{
    for (int rank = 0; rank < all->options.rank_count; rank++) {
        peer *one = &all->peers[rank];
        while (one->leaving != NULL) {
            exec_queued_message *first = one->leaving;
            one->leaving = first->next;
            free(first);
        }
        free(one->coming);
        if (one->socket >= 0) close(one->socket);
    }
    if (all->bell >= 0) close(all->bell);
    exec_inbox_reset(&all->inbox);
    pthread_mutex_destroy(&all->lock);
    free(all->polled);
    free(all->peers);
    free(all);
}

/// Runs the body among ranks that are connected.
static status play(tcp_world *all, bool *is_back, error_message *err)
{
    const int code = pthread_create(&all->thread, NULL, run_rank, all);
    if (code != 0) {
        return error_set(err, STATUS_BACKEND, "cannot start a thread for rank %d: %s",
                         all->own.endpoint.rank, strerror(code));
    }
    *is_back = watch_over(all);
    if (*is_back) {
        pthread_join(all->thread, NULL);
    } else {
        pthread_detach(all->thread);
    }
    return exec_failure_end(&all->failure, &all->options, all->own.endpoint.rank, err);
}

status exec_transport_tcp_run(const exec_transport_options *options, exec_rank_body *body,
                              void *context, error_message *err)
{
    const int started = launcher_process_count(NULL);
    if (started != options->rank_count) {
        return error_set(err, STATUS_INVALID,
                         "transport 'tcp': %d ranks are needed, %d were started; start as many "
                         "with srun -n %d or torchrun",
                         options->rank_count, started, options->rank_count);
    }
    bool is_back = true;
    tcp_world *all = memory_array(1, sizeof *all);
    all->options = *options;
    all->body = body;
    all->context = context;
    init_world(all);
    status code = all->bell >= 0
                      ? connect_all(all, err)
                      : error_set(err, STATUS_BACKEND, "transport 'tcp': %s", strerror(errno));
    if (code == STATUS_OK) code = play(all, &is_back, err);
    *options->abandoned_rank_count = is_back ? 0 : 1;
    if (is_back) free_world(all);
    return code;
}
