/// The transport between threads of one process: the reference. Every rank has a box into which
/// others put copies of their messages, and a condition variable on which it waits for one of them.
///
/// The thread that runs the world watches it: it ends the run where it is interrupted, where all
/// ranks wait for each other, and where nothing has moved for too long.
#include "base/arena.h"
#include "exec/clock.h"
#include "exec/transport/inbox.h"
#include "exec/transport/transports.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STACK_BYTES = 2 << 20 };
static const int64_t watch_every_ns = 50000000;

typedef struct world world;

typedef struct local_rank {
    exec_inbox inbox; // first member
    world *of;
    exec_watched *watched; // with its endpoint
} local_rank;

struct world {
    exec_transport_options options;
    exec_rank_body *body;
    void *context;
    local_rank *ranks;     // [rank_count]
    exec_watched *watched; // [rank_count]
    exec_failure failure;
    pthread_mutex_t lock; // of what is below
    pthread_cond_t ended;
    int user_count; // threads that may still look at the world: of the ranks, and who watches them
};

/// The first failure is that of the run; the waits of all ranks end.
static void fail(world *all, const error_message *why)
{
    const exec_failure_note note = {.why = *why, .lost_rank = -1};
    if (!exec_failure_take(&all->failure, &note)) return;
    for (int rank = 0; rank < all->options.rank_count; rank++) {
        exec_inbox_wake(&all->ranks[rank].inbox);
    }
}

static status local_send(exec_endpoint *endpoint, int to, const exec_message *head,
                         const void *payload, error_message *err)
{
    local_rank *own = endpoint->state;
    assert(to >= 0 && to < endpoint->rank_count && head->payload_bytes >= 0);
    TRY(exec_failure_tell(&own->of->failure, err));
    exec_inbox_put(&own->of->ranks[to].inbox,
                   exec_queued_message_of(endpoint->rank, head, payload));
    exec_inbox_note_move(&own->inbox);
    return STATUS_OK;
}

static const exec_transport transport_local = {
    .name = "local",
    .takes_device_memory = true, // descriptors of it: sender and receiver are one process
    .send = local_send,
    .receive = exec_inbox_receive,
    .is_there = exec_inbox_has,
    .sleep_until = exec_inbox_sleep_until,
    .now_ns = exec_transport_now_ns,
    .has_failed = exec_inbox_has_failed,
    .regroup = exec_transport_regroup,
};

/// The last user frees the world.
static void leave(world *all)
{
    pthread_mutex_lock(&all->lock);
    const bool is_last = --all->user_count == 0;
    pthread_cond_signal(&all->ended);
    pthread_mutex_unlock(&all->lock);
    if (!is_last) return;
    for (int rank = 0; rank < all->options.rank_count; rank++) {
        exec_inbox_reset(&all->ranks[rank].inbox);
    }
    pthread_cond_destroy(&all->ended);
    pthread_mutex_destroy(&all->lock);
    free(all->watched);
    free(all->ranks);
    free(all);
}

static void *run_rank(void *argument)
{
    local_rank *own = argument;
    world *all = own->of;
    error_message err = {0};
    exec_endpoint *endpoint = &own->watched->endpoint;
    exec_thread_make_punctual(all->options.real_time);
    const status code = all->body(endpoint, all->context, &err);
    if (code != STATUS_OK) {
        exec_activity_blame(&endpoint->activity, endpoint->rank, code, &err);
        fail(all, &err);
    }
    atomic_store(&own->watched->has_ended, true);
    leave(all);
    return NULL;
}

static world *create_world(const exec_transport_options *options, exec_rank_body *body,
                           void *context)
{
    world *all = memory_array(1, sizeof *all);
    all->options = *options;
    all->body = body;
    all->context = context;
    all->ranks = memory_array((size_t)options->rank_count, sizeof *all->ranks);
    all->watched = memory_array((size_t)options->rank_count, sizeof *all->watched);
    all->user_count = 1;
    pthread_mutex_init(&all->lock, NULL);
    exec_cond_init(&all->ended);
    for (int rank = 0; rank < options->rank_count; rank++) {
        local_rank *own = &all->ranks[rank];
        own->of = all;
        own->watched = &all->watched[rank];
        own->watched->endpoint = (exec_endpoint){.transport = &transport_local,
                                                 .rank = rank,
                                                 .rank_count = options->rank_count,
                                                 .state = own};
        exec_inbox_init(&own->inbox, own->watched, &all->failure);
    }
    return all;
}

/// Starts the threads. Where one cannot be started, the run has failed for those that were.
static void start(world *all)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int rank = 0; rank < all->options.rank_count; rank++) {
        pthread_mutex_lock(&all->lock);
        all->user_count++;
        pthread_mutex_unlock(&all->lock);
        pthread_t thread; // detached
        const int code = pthread_create(&thread, &attributes, run_rank, &all->ranks[rank]);
        if (code == 0) continue;
        pthread_mutex_lock(&all->lock);
        all->user_count--;
        pthread_mutex_unlock(&all->lock);
        error_message why;
        error_set(&why, STATUS_BACKEND, "cannot start a thread for rank %d of %d: %s", rank,
                  all->options.rank_count, strerror(code));
        fail(all, &why);
        break;
    }
    pthread_attr_destroy(&attributes);
}

/// Returns when all threads have ended, or once the grace after a failure is over.
static void watch_over(world *all)
{
    // Who waits is woken by a message only, whose sender has moved: if all waited at two looks and
    // none has moved between, all waited at one moment, and will for ever.
    exec_watch watch = {.ranks = all->watched,
                        .rank_count = all->options.rank_count,
                        .watchdog_ns = all->options.watchdog_ns,
                        .interrupt = all->options.interrupt};
    int64_t patience_end_ns = INT64_MAX;
    pthread_mutex_lock(&all->lock);
    while (all->user_count > 1 && exec_monotonic_ns() < patience_end_ns) {
        const struct timespec until = exec_timespec_of(exec_monotonic_ns() + watch_every_ns);
        if (pthread_cond_timedwait(&all->ended, &all->lock, &until) == 0) continue;
        pthread_mutex_unlock(&all->lock);
        exec_failure_note note;
        if (!atomic_load(&all->failure.has_failed) && exec_watch_look(&watch, &note) != STATUS_OK) {
            fail(all, &note.why);
        }
        if (atomic_load(&all->failure.has_failed) && patience_end_ns == INT64_MAX) {
            patience_end_ns = exec_monotonic_ns() + all->options.grace_ns;
        }
        pthread_mutex_lock(&all->lock);
    }
    pthread_mutex_unlock(&all->lock);
}

status exec_transport_local_run(const exec_transport_options *options, exec_rank_body *body,
                                void *context, error_message *err)
{
    world *all = create_world(options, body, context);
    start(all);
    watch_over(all);
    pthread_mutex_lock(&all->lock);
    *options->abandoned_rank_count = all->user_count - 1;
    pthread_mutex_unlock(&all->lock);
    const status ended = exec_failure_end(&all->failure, options, 0, err);
    leave(all);
    return ended;
}
