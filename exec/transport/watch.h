/// What the ranks of a run are at, the watch over them: who hangs, or who waits for whom; and the
/// failure of the run.
///
/// The table of the ranks is read by all of them: memory of one process, or memory that the
/// processes of one machine share, all zero at first.
#pragma once

#include "base/status.h"
#include "exec/transport/transport.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/// A failure as its rank tells it to all others.
typedef struct exec_failure_note {
    error_message why;
    int lost_rank; // of the world, that cannot speak; -1: all can
} exec_failure_note;

/// The first failure that a process has heard of. Zero-initialise; must stay where it is.
typedef struct exec_failure {
    atomic_bool is_taken;   // somebody is the first
    atomic_bool has_failed; // and has written
    exec_failure_note note;
} exec_failure;

/// @return whether it is the first
bool exec_failure_take(exec_failure *failure, const exec_failure_note *note);

/// What others than the failed rank return: STATUS_BACKEND with its message; STATUS_OK as long as
/// there is none.
status exec_failure_tell(const exec_failure *failure, error_message *err);

/// What the run returns for a rank of this process, and who speaks for it: rank 0, or rank 1 where
/// rank 0 is lost.
status exec_failure_end(const exec_failure *failure, const exec_transport_options *options,
                        int rank, error_message *err);

/// One rank. Written by itself, but for the bell.
typedef struct exec_watched {
    exec_endpoint endpoint;         // with its rank and its activity
    _Atomic uint64_t move_count;    // messages and sleeps: grows as long as the rank gets on
    _Atomic int64_t sleep_until_ns; // 0: it does not sleep
    _Atomic int waits_for;          // rank of the world + 1, or 0
    _Atomic bool has_ended;
    _Atomic bool has_failed; // or knows that another has
    _Atomic uint32_t bell;   // messages that were sent to it so far; also a futex
    _Atomic uint32_t is_asleep;
} exec_watched;

/// Somebody who looks at the ranks again and again.
typedef struct exec_watch {
    exec_watched *ranks; // [rank_count]
    int rank_count;
    int64_t watchdog_ns;          // how long nothing may move while a rank is busy
    int64_t waiting_ns;           // how long nothing may move while all ranks wait, one at least
                                  // that is not released
    const atomic_bool *interrupt; // of the options
    int64_t looked_ns;            // at the last look; 0: there was none
    int64_t quiet_ns;             // for so long nothing has moved
    uint64_t move_count;          // of all ranks, at the last look
    bool all_waited;              // at the last look
} exec_watch;

/// Looks at the ranks once.
///
/// @param note out on failure; a rank that hangs is lost
/// @return STATUS_BACKEND naming the rank that hangs and its op, or, where all wait, who waits for
///         whom; where the run is interrupted
status exec_watch_look(exec_watch *watch, exec_failure_note *note);
