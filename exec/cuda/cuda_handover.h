/// Memory that one stage hands to another of the same process: buffers of the giver that stay in
/// use until the taker has copied them.
///
/// Giving copies into such a buffer, taking copies out of it into the taker's own memory: a
/// transfer between stages costs time on both, as a link's does. Nobody waits on the host.
#pragma once

#include "base/status.h"
#include "exec/kernels/kernels.h"

#include <stdbool.h>

/// Zero-initialise; release with exec_cuda_handovers_reset.
typedef struct exec_cuda_handovers {
    struct exec_cuda_gift **gifts; // [gift_count]
    int gift_count;
} exec_cuda_handovers;

/// Begins to give: a free buffer, or a new one, which operations of the stream may fill.
status exec_cuda_give_begin(exec_cuda_handovers *handovers, void *stream, size_t bytes,
                            exec_handover *described, error_message *err);
/// What the stream has been told to do to the buffer is what the taker gets.
status exec_cuda_give_end(void *stream, const exec_handover *described, error_message *err);

/// Begins to take what another has given, once: operations on the stream find it filled.
/// @return STATUS_BACKEND if it is no handover
status exec_cuda_take_begin(void *stream, const exec_handover *described, error_message *err);
/// The giver may fill the buffer again when what the stream has been told is done.
status exec_cuda_take_end(void *stream, const exec_handover *described, error_message *err);

/// Whether bytes begin with a handover.
bool exec_cuda_is_handover(const void *bytes, int64_t byte_count);

/// Frees the buffers, but for those that are offered: where this rank has failed, another may be
/// about to take them.
void exec_cuda_handovers_reset(exec_cuda_handovers *handovers);
