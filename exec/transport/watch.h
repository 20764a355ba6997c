/// What the ranks of a run are at, and the watch over them: who hangs, or who waits for whom.
///
/// The table of the ranks is read by all of them: memory of one process, or memory that the
/// processes of one machine share, all zero at first.
#pragma once

#include "base/status.h"
#include "exec/transport/transport.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

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
    int64_t watchdog_ns; // how long nothing may move while a rank is busy
    int64_t waiting_ns;  // how long nothing may move while all ranks wait
    int64_t looked_ns;   // at the last look; 0: there was none
    int64_t quiet_ns;    // for so long nothing has moved
    uint64_t move_count; // of all ranks, at the last look
    bool all_waited;     // at the last look
    int hung_rank;       // of the world, after a failure: it cannot speak; -1: all wait
} exec_watch;

/// Looks at the ranks once.
///
/// @return STATUS_BACKEND naming the rank that hangs and its op, or, where all wait, who waits for
///         whom
status exec_watch_look(exec_watch *watch, error_message *err);
