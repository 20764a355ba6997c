#include "exec/transport/inbox.h"

#include "base/arena.h"
#include "exec/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void exec_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

void exec_inbox_init(exec_inbox *inbox, exec_watched *watched, exec_failure *failure)
{
    *inbox = (exec_inbox){.watched = watched, .failure = failure};
    pthread_mutex_init(&inbox->lock, NULL);
    exec_cond_init(&inbox->wake);
}

void exec_inbox_reset(exec_inbox *inbox)
{
    for (int bucket = 0; bucket < EXEC_INBOX_BUCKETS; bucket++) {
        while (inbox->buckets[bucket] != NULL) {
            exec_queued_message *first = inbox->buckets[bucket];
            inbox->buckets[bucket] = first->next;
            free(first);
        }
    }
    pthread_cond_destroy(&inbox->wake);
    pthread_mutex_destroy(&inbox->lock);
}

exec_queued_message *exec_queued_message_make(int from, const exec_message *head)
{
    const size_t lines = ((size_t)head->payload_bytes + sizeof *head - 1) / sizeof *head;
    exec_queued_message *made = memory_array(1, sizeof *made + lines * sizeof *head);
    made->next = NULL;
    made->from = from;
    made->head = *head;
    return made;
}

exec_queued_message *exec_queued_message_of(int from, const exec_message *head, const void *payload)
{
    exec_queued_message *made = exec_queued_message_make(from, head);
    if (head->payload_bytes > 0) memcpy(made->payload, payload, (size_t)head->payload_bytes);
    return made;
}

static exec_queued_message **bucket_of(exec_inbox *inbox, int from, uint64_t key)
{
    const uint64_t mixed = (key ^ (uint64_t)from << 40) * UINT64_C(0x9e3779b97f4a7c15);
    return &inbox->buckets[mixed >> 57];
}
_Static_assert(EXEC_INBOX_BUCKETS == 1 << (64 - 57), "the top bits of the hash are the bucket");

/// Where the message stands in its bucket; NULL there at its end.
static exec_queued_message **find(exec_inbox *inbox, int from, uint64_t key)
{
    exec_queued_message **at = bucket_of(inbox, from, key);
    while (*at != NULL && ((*at)->from != from || (*at)->head.key != key)) {
        at = &(*at)->next;
    }
    return at;
}

void exec_inbox_put(exec_inbox *inbox, exec_queued_message *message)
{
    const uint64_t key = message->head.key;
    pthread_mutex_lock(&inbox->lock);
    exec_queued_message **end = bucket_of(inbox, message->from, key);
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = message;
    const bool is_awaited =
        atomic_load(&inbox->watched->waits_for) == message->from + 1 && inbox->wait_key == key;
    if (is_awaited) atomic_store(&inbox->watched->waits_for, 0);
    pthread_mutex_unlock(&inbox->lock);
    if (is_awaited) pthread_cond_signal(&inbox->wake);
}

void exec_inbox_wake(exec_inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    pthread_cond_broadcast(&inbox->wake);
    pthread_mutex_unlock(&inbox->lock);
}

/// Waits until the message is there and takes it out; NULL once the run has failed.
static exec_queued_message *take(exec_inbox *inbox, int from, uint64_t key)
{
    pthread_mutex_lock(&inbox->lock);
    exec_queued_message **at = find(inbox, from, key);
    while (*at == NULL && !atomic_load(&inbox->failure->has_failed)) {
        inbox->wait_key = key;
        atomic_store(&inbox->watched->waits_for, from + 1);
        pthread_cond_wait(&inbox->wake, &inbox->lock);
        at = find(inbox, from, key);
    }
    atomic_store(&inbox->watched->waits_for, 0);
    exec_queued_message *taken = *at;
    if (taken != NULL) *at = taken->next;
    pthread_mutex_unlock(&inbox->lock);
    return taken;
}

void exec_inbox_note_move(exec_inbox *inbox)
{
    atomic_fetch_add_explicit(&inbox->watched->move_count, 1, memory_order_relaxed);
}

status exec_inbox_receive(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head,
                          void *payload, int64_t capacity_bytes, error_message *err)
{
    exec_inbox *inbox = endpoint->state;
    assert(from >= 0 && from < endpoint->rank_count);
    exec_queued_message *taken = take(inbox, from, key);
    if (taken == NULL) return exec_failure_tell(inbox->failure, err);
    exec_inbox_note_move(inbox);
    const int64_t bytes = taken->head.payload_bytes;
    if (head != NULL) *head = taken->head;
    if (bytes > 0 && bytes <= capacity_bytes) memcpy(payload, taken->payload, (size_t)bytes);
    free(taken);
    if (bytes <= capacity_bytes) return STATUS_OK;
    return error_set(err, STATUS_BACKEND,
                     "a message of %" PRId64 " bytes from rank %d, where at most %" PRId64
                     " are expected",
                     bytes, from, capacity_bytes);
}

bool exec_inbox_has(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head)
{
    exec_inbox *inbox = endpoint->state;
    pthread_mutex_lock(&inbox->lock);
    const exec_queued_message *found = *find(inbox, from, key);
    if (found != NULL && head != NULL) *head = found->head;
    pthread_mutex_unlock(&inbox->lock);
    return found != NULL;
}

status exec_inbox_sleep_until(exec_endpoint *endpoint, int64_t until_ns, error_message *err)
{
    exec_inbox *inbox = endpoint->state;
    const struct timespec until = exec_timespec_of(until_ns);
    exec_watched *watched = inbox->watched;
    atomic_store_explicit(&watched->sleep_until_ns, until_ns, memory_order_relaxed);
    pthread_mutex_lock(&inbox->lock);
    int woken = 0;
    while (woken == 0 && exec_monotonic_ns() < until_ns &&
           !atomic_load(&inbox->failure->has_failed)) {
        woken = pthread_cond_timedwait(&inbox->wake, &inbox->lock, &until);
    }
    pthread_mutex_unlock(&inbox->lock);
    exec_inbox_note_move(inbox);
    atomic_store_explicit(&watched->sleep_until_ns, 0, memory_order_relaxed);
    return exec_failure_tell(inbox->failure, err);
}

bool exec_inbox_has_failed(const exec_endpoint *endpoint)
{
    const exec_inbox *inbox = endpoint->state;
    return atomic_load(&inbox->failure->has_failed);
}
