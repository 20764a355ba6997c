/// How the ranks of a run reach each other: messages, waiting, and what happens when one fails.
///
/// The world of a run is replica_count x place_count ranks; world rank = replica * pipeline ranks +
/// rank of the machine. Messages between two ranks are told apart by their keys and may be received
/// in any order; two with the same key are received in the order in which they were sent.
///
/// Every wait sleeps, none spins. The first failure of any rank is the failure of the run: all
/// waits and sends of all other ranks end with STATUS_BACKEND and its message, as they do where
/// nothing has moved for the watchdog's time or the run is interrupted. So a body that meets a
/// failure only returns it.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// What a rank is busy with, so that a message about a failure or a hang can say it.

/// What a rank does that is no op.
typedef enum exec_phase {
    EXEC_PHASE_NONE,
    EXEC_PHASE_START,
    EXEC_PHASE_REDUCTION,
    EXEC_PHASE_UPDATE,
    EXEC_PHASE_REPORT,
    EXEC_PHASE_DECISION,
    EXEC_PHASE_MIGRATION,
    EXEC_PHASE_HASH,
    EXEC_PHASE_RELEASED,
    EXEC_PHASE_COUNT
} exec_phase;

/// Written by its rank, read by others at any time, also by other processes, of two moments at
/// worst. 0: nothing yet.
typedef struct exec_activity {
    _Atomic int what; // a phase, or EXEC_PHASE_COUNT + the kind of an op
    _Atomic int iteration;
    _Atomic int stage;      // of an op
    _Atomic int microbatch; // likewise
} exec_activity;

/// The rank is at an op from now on.
void exec_activity_set_op(exec_activity *activity, int iteration, int stage, bal_op op);

/// The rank is at something else from now on.
void exec_activity_set_phase(exec_activity *activity, int iteration, exec_phase phase);

enum { EXEC_ACTIVITY_BYTES = 96 };

/// Writes "rank 3, iteration 12, F5 of stage 3", "rank 3, iteration 12, migration" or "rank 3".
///
/// @return out
const char *exec_activity_text(const exec_activity *activity, int rank,
                               char out[EXEC_ACTIVITY_BYTES]);

/// Puts that and ": " in front of a message that does not name a rank yet.
void exec_activity_blame(const exec_activity *activity, int rank, status code, error_message *err);

/// What travels in front of every payload, as it is.
typedef struct exec_message {
    uint64_t key;     // exec_message_key
    int64_t ready_ns; // of an op: when its output is at the receiver by the sender's deadlines,
                      // ns since the iteration's begin
    int64_t payload_bytes; // after the head
    int64_t value[5];      // the sender's own: counts, flags
} exec_message;
_Static_assert(sizeof(exec_message) == 64, "the head of a message is one cache line");

typedef enum exec_message_kind {
    EXEC_MESSAGE_FORWARD,  ///< activations to the next stage
    EXEC_MESSAGE_BACKWARD, ///< gradients to the stage before
    EXEC_MESSAGE_MIGRATE,  ///< state of a layer
    EXEC_MESSAGE_ORDER,    ///< of the leader to a rank
    EXEC_MESSAGE_GROUP,    ///< collectives over messages (group.h)
    EXEC_MESSAGE_KIND_COUNT
} exec_message_kind;

/// Stages that a key can tell apart; the last is the transport's own.
enum { EXEC_STAGE_MAX = (1 << 16) - 2, EXEC_STAGE_OF_TRANSPORT = (1 << 16) - 1 };

/// The key of a message.
///
/// @param sequence   iteration or a running number >= 0; its low 24 bits count
/// @param stage      stage or layer in [0, EXEC_STAGE_MAX]
/// @param microbatch microbatch or part in [0, BAL_MICROBATCHES_MAX)
uint64_t exec_message_key(exec_message_kind kind, int sequence, int stage, int microbatch);

/// Whether a message is an op's.
bool exec_message_is_of_op(uint64_t key);

typedef struct exec_endpoint exec_endpoint;

/// Device memory that goes to another rank, or comes from it.
typedef struct exec_transfer {
    int rank; // of the world
    bool is_send;
    void *memory;
    int64_t byte_count;
} exec_transfer;

/// The functions of a transport. One table per transport, static storage.
typedef struct exec_transport {
    const char *name;
    bool takes_device_memory; // payloads of FORWARD and BACKWARD may be descriptors of the
                              // device's memory; else bytes in memory of the host

    /// Hands a message over. Returns when head and payload may be used again; does not wait for the
    /// receiver. A rank may send to itself.
    ///
    /// @param head    payload_bytes of payload follow it
    /// @param payload NULL where there are none
    /// @return STATUS_BACKEND, see above
    status (*send)(exec_endpoint *endpoint, int to, const exec_message *head, const void *payload,
                   error_message *err);

    /// Sleeps until the message with this key from this rank is there, and takes it.
    ///
    /// @param head           out, or NULL
    /// @param payload        [capacity_bytes] out, or NULL with capacity 0
    /// @return STATUS_BACKEND, see above, and for a message that is longer than capacity_bytes,
    ///         naming both
    status (*receive)(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head,
                      void *payload, int64_t capacity_bytes, error_message *err);

    /// Whether receive would return at once.
    ///
    /// @param head out where it is there, or NULL
    bool (*is_there)(exec_endpoint *endpoint, int from, uint64_t key, exec_message *head);

    /// Sleeps until now_ns would return clock_ns. The watchdog waits for it, however far it is. Of
    /// a moment that has passed it only tells whether the run goes on.
    status (*sleep_until)(exec_endpoint *endpoint, int64_t clock_ns, error_message *err);

    /// A monotonic clock that ranks of one machine share.
    int64_t (*now_ns)(const exec_endpoint *endpoint);

    /// Whether the run is known here to have failed. Any thread of the rank's process may ask.
    bool (*has_failed)(const exec_endpoint *endpoint);

    /// Collective over the world. From now on only ranks with a place exchange messages of ops, and
    /// only within their line: line_ranks ranks of the world after each other, one pipeline. A
    /// transport with communicators splits the world's, never another. No message may be on its
    /// way.
    ///
    /// @param place [rank_count] in the order of the line's pipeline, from 0; -1: none. The same on
    ///              all ranks
    status (*regroup)(exec_endpoint *endpoint, const int *place, int line_ranks,
                      error_message *err);

    /// Enqueues transfers of device memory on a stream of the backend (kernels.h), all at once.
    /// Each wants its counterpart at the other rank; transfers between two ranks keep their order.
    /// NULL: memory of devices travels as handovers only.
    status (*exchange)(exec_endpoint *endpoint, void *stream, const exec_transfer *transfers,
                       int count, error_message *err);

    /// This rank has failed: ends what the transport still does with device memory, so that a
    /// device can be closed without waiting for messages that never come. Nothing may follow but
    /// the end of the rank. NULL: it does nothing with device memory.
    void (*abandon)(exec_endpoint *endpoint);
} exec_transport;

/// A rank's hold on its transport. One thread uses it.
struct exec_endpoint {
    const exec_transport *transport;
    int rank;               // of the world
    int rank_count;         // of the world
    exec_activity activity; // of this rank, for messages about failures
    void *state;            // the transport's own
};

static inline int64_t exec_endpoint_now_ns(const exec_endpoint *endpoint)
{
    return endpoint->transport->now_ns(endpoint);
}

/// A device is closed after a failure only when no message holds its memory any more.
static inline void exec_endpoint_abandon(exec_endpoint *endpoint)
{
    if (endpoint->transport->abandon != NULL) endpoint->transport->abandon(endpoint);
}

typedef struct exec_transport_options {
    int rank_count;            // of the world; what the launcher has started, if it has
    int64_t watchdog_ns;       // the run has failed where nothing has moved for so long
    int64_t grace_ns;          // ranks are given so long to end after a failure
    bool real_time;            // asks for SCHED_RR, and does without where that is not allowed
    atomic_bool *interrupt;    // NULL, or set by the caller at any time, also in a signal handler:
                               // the run ends within a second, "interrupted"
    int *abandoned_rank_count; // out, or NULL: threads of `local` that were not back when the grace
                               // was over. What the body borrows then stays in use: end the process
    bool *speaks; // NULL: what exec_transport_is_leader says; else the transport above tells it
} exec_transport_options;

/// One rank, a watchdog of 60 s, 5 s of grace, nothing else.
exec_transport_options exec_transport_options_default(void);

enum { EXEC_TRANSPORT_COUNT = 4 };

/// "local", "mpi", "tcp", "nccl".
extern const char *const exec_transport_names[EXEC_TRANSPORT_COUNT];

/// What a rank does. It borrows the endpoint for the call. Collective: the body of every rank is
/// called.
typedef status exec_rank_body(exec_endpoint *endpoint, void *context, error_message *err);

/// Runs body on every rank of the world. With `local`, and with `nccl` where no launcher has
/// started several processes, it makes rank_count threads and returns when all have ended; else it
/// runs body once, for the rank that this process is, and every process returns the same.
///
/// @param name one of exec_transport_names
/// @return the status of the rank that failed first, "rank 3, iteration 12, F5 of stage 3: " in
///         front of its message unless that names a rank itself; STATUS_BACKEND for ranks that hang
///         or wait for each other, naming them and what they do, and where interrupted;
///         STATUS_INVALID for an unknown name or a wrong rank_count; STATUS_UNSUPPORTED where this
///         build or this machine lacks the transport, saying what is missing
status exec_transport_run(const char *name, const exec_transport_options *options,
                          exec_rank_body *body, void *context, error_message *err);

/// What a launcher has started several times runs as one only over MPI or TCP; NCCL moves the
/// memory of GPUs.
///
/// @param device that the ranks have, by its name
/// @return STATUS_INVALID naming the launcher's variable, for `local` in one of several processes;
///         for `nccl` with another device than cuda
status exec_transport_check(const char *name, const char *device, error_message *err);

/// Whether this process speaks for the run, and so writes files and prints: the one with rank 0, as
/// the launcher has told it, also before the run. After a failure in which rank 0 is lost: that of
/// rank 1. False for an unknown name.
bool exec_transport_is_leader(const char *name);

/// What a process ends with: only the leader has a message. After a failure all others let it end
/// first, within 5 s, because a launcher that sees one process fail ends all, before they have
/// printed. Who has not been ended by then, and has failed before the run, has met what the leader
/// knows nothing of: a file that only its machine lacks. Its message is that, and names it.
///
/// @return ended
status exec_transport_end(const char *name, status ended, error_message *err);
