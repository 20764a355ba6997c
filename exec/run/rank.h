/// The engine: plays one iteration of a rank's program over a device and a transport.
#pragma once

#include "base/status.h"
#include "exec/clock.h"
#include "exec/device/device.h"
#include "exec/transport/transport.h"

#include <stdint.h>

/// What a rank measured of an iteration. The arrays are the caller's, of the program's steps, in ns
/// since the iteration's begin.
typedef struct exec_rank_times {
    int64_t *begin_ns;   // [step_count]
    int64_t *end_ns;     // [step_count]
    int64_t overhead_ns; // from the call to the return, less ops and waits for messages: the
                         // engine's own time
    int64_t wake_ns;     // sum over sleeps of how late the rank woke
    int64_t latency_ns;  // sum over awaited messages of how late they came after ready_ns
    int awaited_count;   // messages that were not there when the rank came to their op
    int message_count;   // received
} exec_rank_times;

typedef struct exec_rank_play {
    exec_endpoint *endpoint;
    exec_device *device;
    const exec_program *program;
    const int *world_rank;          // [places of the pipeline] of this replica
    const int64_t *send_forward_ns; // [stage_count] of bal_stage_costs: from the end of an op until
    const int64_t *send_backward_ns; // its output is at another rank, by the plan; NULL: 0
    exec_clock clock;
    int64_t iteration_begin_ns; // clock of the transport, the same moment on all ranks: now, or
                                // still to come. Not read under EXEC_CLOCK_NOMINAL
} exec_rank_play;

/// Plays one iteration: begins it on the device, has the device play every step with its input,
/// notes when, sends the output, and finishes the iteration.
///
/// The message of an op's output has the kind FORWARD or BACKWARD, the iteration, the stage that it
/// goes to and the microbatch as its key, and its ready_ns is end_ns + the transfer time.
///
/// @param times out: unspecified on failure
/// @return what the device and the transport return; STATUS_UNSUPPORTED for the nominal clock with
///         a device that is asynchronous
///
/// Allocates nothing.
status exec_rank_iterate(const exec_rank_play *play, const exec_iteration *iteration,
                         exec_rank_times *times, error_message *err);
