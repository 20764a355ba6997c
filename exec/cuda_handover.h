/// Memory that one stage hands to another of the same process: buffers of the giver that stay in
/// use until the taker has copied them.
///
/// Giving copies into such a buffer, taking copies out of it into the taker's own memory: a
/// transfer between stages costs time on both, as a link's does. Nobody waits on the host.
#pragma once

#include "base/status.h"
#include "exec/kernels.h"

/// Zero-initialise; release with exec_cuda_handovers_reset.
typedef struct exec_cuda_handovers {
    struct exec_cuda_gift **gifts; // [gift_count]
    int gift_count;
} exec_cuda_handovers;

/// Copies memory on the stream into a free buffer, or a new one, and describes it.
status exec_cuda_handovers_offer(exec_cuda_handovers *handovers, void *stream, const void *memory,
                                 size_t bytes, exec_handover *described, error_message *err);

/// Copies what another stage has offered, on this stage's stream, as soon as it is there. Each
/// handover is taken once.
status exec_cuda_handovers_take(void *stream, const exec_handover *described, void *to,
                                error_message *err);

/// Frees the buffers. Every offer must have been taken, or never will be; the device is idle.
void exec_cuda_handovers_reset(exec_cuda_handovers *handovers);
