/// Connects every two processes of a run by TCP.
///
/// Rank 0 listens at the meeting point; the others tell it where they listen, hear from it where
/// all do, and connect to those below them. Who connects without saying what ranks say is turned
/// away.
#pragma once

#include "base/status.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct exec_tcp_meeting {
    int rank;
    int rank_count;
    const char *host;             // of rank 0: a name or an address
    int port;                     // of rank 0
    int64_t patience_ns;          // from the call on
    const atomic_bool *interrupt; // or NULL
} exec_tcp_meeting;

/// @param sockets [rank_count] out: connected, non-blocking, to be closed by the caller; -1 at this
///                rank itself. All -1 on failure
/// @return STATUS_BACKEND naming who did not come in time, or what the system refuses; where
///         interrupted
status exec_tcp_connect(const exec_tcp_meeting *meeting, int *sockets, error_message *err);
