/// How fast ranks reach each other: messages there and back over many sizes, between every two of
/// them while the others wait, and the line that fits them.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "exec/probe/probe_compute.h"
#include "exec/transport/transport.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXEC_PROBE_RANKS_MAX = 64, EXEC_PROBE_HOST_BYTES = 64 };

/// Half of a round trip of messages of one size between two ranks.
typedef struct exec_probe_trip {
    int from, to; // of the world, from < to
    int64_t bytes;
    exec_probe_times times;
} exec_probe_trip;

/// Messages of `bytes` take latency_ns + bytes / bytes_per_s.
typedef struct exec_probe_line {
    int64_t latency_ns;
    int64_t bytes_per_s;
    double deviation_ratio; // largest |line / measured - 1| over the trips
    int trip_count;
} exec_probe_line;

/// Fits a line to the medians of trips: least squares of relative errors, so that short messages
/// count as much as long ones; a latency below 0 is 0.
///
/// @param trips [count], all counted
/// @return STATUS_INVALID if the trips are of fewer than two sizes, or do not take longer for more
///         bytes; line is then untouched
status exec_probe_line_fit(const exec_probe_trip *trips, int count, exec_probe_line *line,
                           error_message *err);

typedef struct exec_probe_links_options {
    const char *transport;
    int rank_count;   // of the world; for `mpi` and `nccl` as launched
    int round_count;  // round trips of one size, after those that are not counted; >= 1
    int64_t size_max; // largest message; sizes are 64 bytes and every fourfold up to it
    bool uses_cuda;   // messages lie in memory of the GPU, where the transport takes it
} exec_probe_links_options;

/// `local`, 2 ranks, 50 rounds, 64 MiB.
exec_probe_links_options exec_probe_links_options_default(void);

typedef struct exec_probe_links {
    int rank_count;
    int trip_count;
    const exec_probe_trip *trips; // of every two ranks and every size; carved from memory
    const char *hosts;            // [rank_count][EXEC_PROBE_HOST_BYTES] names of their machines
    bool is_leader;               // this process knows all of it; else trip_count is 0
} exec_probe_links;

/// Whether two ranks are on one machine, by its name.
bool exec_probe_links_is_intra(const exec_probe_links *links, int rank, int other);

/// Runs the ranks and has every two of them in turn send messages to and fro.
///
/// @param links untouched on failure
/// @return STATUS_INVALID for fewer than 2 or more than EXEC_PROBE_RANKS_MAX ranks; what
///         exec_transport_run returns
status exec_probe_links_measure(const exec_probe_links_options *options, arena *memory,
                                exec_probe_links *links, error_message *err);
