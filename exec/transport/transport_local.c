/// The transport between threads of one process: the reference. Every rank has a box into which
/// others put copies of their messages, and a condition variable on which it waits for one of them.
///
/// The thread that runs the world watches it: it ends the run where it is interrupted, where all
/// ranks wait for each other, and where nothing has moved for too long.
#include "base/arena.h"
#include "exec/monotonic_clock.h"
#include "exec/punctual_thread.h"
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
    world *of;
    exec_watched *watched; // with its endpoint
    exec_inbox inbox;
    pthread_t thread;
} local_rank;

struct world {
    exec_transport_options options;
    exec_rank_body *body;
    void *context;
    int started_count;
    local_rank *ranks;     // [rank_count]
    exec_watched *watched; // [rank_count]
    exec_failure failure;
    pthread_mutex_t lock; // of what is below
    pthread_cond_t ended;
    int running_count;
    int user_count; // threads that may still look at the world; the last one frees it
};

/// The first failure is that of the run; the waits of all ranks end.
static void fail(world *all, const error_message *why)
{
    if (!exec_failure_note(&all->failure, why)) return;
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
    exec_queued_message *sent = exec_queued_message_make(endpoint->rank, head);
    sent->head.sent_ns = exec_monotonic_ns();
    if (head->payload_bytes > 0) memcpy(sent->payload, payload, (size_t)head->payload_bytes);
    exec_inbox_put(&own->of->ranks[to].inbox, sent);
    exec_inbox_note_move(&own->inbox);
    return STATUS_OK;
}

static status local_receive(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head,
                            void *payload, int64_t capacity_bytes, error_message *err)
{
    local_rank *own = endpoint->state;
    assert(from >= 0 && from < endpoint->rank_count);
    return exec_inbox_receive(&own->inbox, from, key, head, payload, capacity_bytes, err);
}

static bool local_is_there(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head)
{
    local_rank *own = endpoint->state;
    return exec_inbox_has(&own->inbox, from, key, head);
}

static status local_sleep_until(exec_endpoint *endpoint, int64_t until_ns, error_message *err)
{
    local_rank *own = endpoint->state;
    return exec_inbox_sleep_until(&own->inbox, until_ns, err);
}

static int64_t local_now_ns(const exec_endpoint *endpoint)
{
    (void)endpoint;
    return exec_monotonic_ns();
}

static bool local_has_failed(const exec_endpoint *endpoint)
{
    const local_rank *own = endpoint->state;
    return atomic_load(&own->of->failure.has_failed);
}

/// There is nothing to split. Ranks meet as they do where there is, so that one which does not come
/// is missed here too.
static status local_regroup(exec_endpoint *endpoint, const int *place, int line_ranks,
                            error_message *err)
{
    (void)place;
    (void)line_ranks;
    const uint64_t key = exec_message_key(EXEC_MESSAGE_GROUP, 0, EXEC_STAGE_OF_TRANSPORT, 0);
    return exec_transport_meet(endpoint, key, err);
}

static const exec_transport transport_local = {
    .name = "local",
    .takes_device_memory = true, // descriptors of it: sender and receiver are one process
    .send = local_send,
    .receive = local_receive,
    .is_there = local_is_there,
    .sleep_until = local_sleep_until,
    .now_ns = local_now_ns,
    .has_failed = local_has_failed,
    .regroup = local_regroup,
};

/// The last user frees the world.
static void leave(world *all)
{
    pthread_mutex_lock(&all->lock);
    const bool is_last = --all->user_count == 0;
    pthread_mutex_unlock(&all->lock);
    if (!is_last) return;
    for (int rank = 0; rank < all->options.rank_count; rank++) {
        exec_inbox_reset(&all->ranks[rank].inbox);
    }
    pthread_cond_destroy(&all->ended);
    pthread_mutex_destroy(&all->lock);
    exec_failure_reset(&all->failure);
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
        err.code = exec_activity_blame(&endpoint->activity, endpoint->rank, code, &err);
        fail(all, &err);
    }
    atomic_store(&own->watched->has_ended, true);
    pthread_mutex_lock(&all->lock);
    all->running_count--;
    pthread_cond_signal(&all->ended);
    pthread_mutex_unlock(&all->lock);
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
    exec_failure_init(&all->failure);
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
        all->running_count++;
        all->user_count++;
        pthread_mutex_unlock(&all->lock);
        const int code =
            pthread_create(&all->ranks[rank].thread, &attributes, run_rank, &all->ranks[rank]);
        if (code == 0) continue;
        pthread_mutex_lock(&all->lock);
        all->running_count--;
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

/// Whether the run has failed, or is interrupted.
static bool look(world *all, exec_watch *watch, error_message *why)
{
    if (all->options.interrupt != NULL && atomic_load(all->options.interrupt)) {
        error_set(why, STATUS_BACKEND, "interrupted");
        return true;
    }
    return exec_watch_look(watch, why) != STATUS_OK;
}

/// Returns when all threads have ended, or once the grace after a failure is over.
static void watch_over(world *all)
{
    // Who waits is woken by a message only, whose sender has moved: if all waited at two looks and
    // none has moved between, all waited at one moment, and will for ever.
    exec_watch watch = {.ranks = all->watched,
                        .rank_count = all->options.rank_count,
                        .watchdog_ns = all->options.watchdog_ns};
    int64_t patience_end_ns = INT64_MAX;
    pthread_mutex_lock(&all->lock);
    while (all->running_count > 0 && exec_monotonic_ns() < patience_end_ns) {
        const struct timespec until = exec_timespec_of(exec_monotonic_ns() + watch_every_ns);
        if (pthread_cond_timedwait(&all->ended, &all->lock, &until) == 0) continue;
        pthread_mutex_unlock(&all->lock);
        error_message why;
        if (!atomic_load(&all->failure.has_failed) && look(all, &watch, &why)) fail(all, &why);
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
    const int abandoned_count = all->running_count;
    const error_message failure = all->failure.message;
    pthread_mutex_unlock(&all->lock);
    leave(all);
    if (options->abandoned_rank_count != NULL) *options->abandoned_rank_count = abandoned_count;
    if (failure.code == STATUS_OK) return STATUS_OK;
    return error_set(err, failure.code, "%s", failure.message);
}
