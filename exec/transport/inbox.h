/// The messages that have come to a rank and that it has not asked for yet. One thread takes them,
/// any other may put them in. The failure of the run ends its waits. Over mpi one thread does both,
/// and takes only what is there.
#pragma once

#include "exec/transport/transport.h"
#include "exec/transport/watch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { EXEC_INBOX_BUCKETS = 128 };

/// A message on its way. Head and payload are one run of bytes, as it travels between processes.
typedef struct exec_queued_message {
    struct exec_queued_message *next; // of the same list
    int from;
    exec_message head;
    char payload[]; // [head.payload_bytes], and up to a multiple of the head's size zeros
} exec_queued_message;
_Static_assert(offsetof(exec_queued_message, payload) ==
                   offsetof(exec_queued_message, head) + sizeof(exec_message),
               "the payload follows the head");

/// Must stay where it is. What stands below lock is read and written under it.
typedef struct exec_inbox {
    exec_watched *watched; // the rank, for who watches it
    exec_failure *failure; // of the run: then every wait ends
    pthread_cond_t wake;
    pthread_mutex_t lock;
    exec_queued_message *buckets[EXEC_INBOX_BUCKETS];
    uint64_t wait_key; // with watched->waits_for: the message that the rank waits for
} exec_inbox;

/// @param watched, failure borrowed until the reset
void exec_inbox_init(exec_inbox *inbox, exec_watched *watched, exec_failure *failure);
void exec_inbox_reset(exec_inbox *inbox);

/// A message with room for its payload, to be freed by who takes it.
///
/// @param head copied
exec_queued_message *exec_queued_message_make(int from, const exec_message *head);

/// A message that is sent now.
exec_queued_message *exec_queued_message_of(int from, const exec_message *head,
                                            const void *payload);

/// Puts a message in, and wakes the rank if it waits for this one.
void exec_inbox_put(exec_inbox *inbox, exec_queued_message *message);

/// Wakes the rank because the run has failed.
void exec_inbox_wake(exec_inbox *inbox);

// As those of exec_transport, by the machine's monotonic clock, for endpoints whose state begins
// with an inbox.

status exec_inbox_receive(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head,
                          void *payload, int64_t capacity_bytes, error_message *err);
bool exec_inbox_has(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head);
status exec_inbox_sleep_until(exec_endpoint *endpoint, int64_t until_ns, error_message *err);
bool exec_inbox_has_failed(const exec_endpoint *endpoint);

/// Counts that the rank has got on.
void exec_inbox_note_move(exec_inbox *inbox);

/// A condition variable that waits by the machine's monotonic clock.
void exec_cond_init(pthread_cond_t *cond);
