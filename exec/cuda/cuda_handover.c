#include "exec/cuda/cuda_handover.h"

#include "base/arena.h"
#include "exec/cuda/cuda_check.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/// Says that bytes are a handover.
static const uint64_t magic = UINT64_C(0x64796e6d6f676966);

enum { GIFT_FREE, GIFT_OFFERED, GIFT_TAKEN };

/// A buffer of the giver. The giver owns it while it is free or taken, the taker in between.
typedef struct exec_cuda_gift {
    void *device_buffer;
    size_t capacity_bytes;
    cudaEvent_t ready; // the buffer is filled
    cudaEvent_t taken; // it has been copied
    atomic_int state;
} exec_cuda_gift;

static void destroy_gift(exec_cuda_gift *gift)
{
    cudaFree(gift->device_buffer);
    if (gift->ready != NULL) cudaEventDestroy(gift->ready);
    if (gift->taken != NULL) cudaEventDestroy(gift->taken);
    free(gift);
}

static status fill_gift(exec_cuda_gift *gift, void *stream, size_t bytes, error_message *err)
{
    TRY_CUDA(cudaMallocAsync(&gift->device_buffer, bytes, stream));
    gift->capacity_bytes = bytes;
    TRY_CUDA(cudaEventCreateWithFlags(&gift->ready, cudaEventDisableTiming));
    TRY_CUDA(cudaEventCreateWithFlags(&gift->taken, cudaEventDisableTiming));
    return STATUS_OK;
}

static status make_gift(exec_cuda_handovers *handovers, void *stream, size_t bytes,
                        exec_cuda_gift **made, error_message *err)
{
    handovers->gifts =
        memory_grow(handovers->gifts, (size_t)handovers->gift_count, sizeof(exec_cuda_gift *));
    exec_cuda_gift *gift = memory_array(1, sizeof *gift);
    atomic_init(&gift->state, GIFT_FREE);
    const status filled = fill_gift(gift, stream, bytes, err);
    if (filled != STATUS_OK) {
        destroy_gift(gift);
        return filled;
    }
    handovers->gifts[handovers->gift_count++] = gift;
    *made = gift;
    return STATUS_OK;
}

/// A buffer that has been copied, not one that will be: that may wait for another rank, which may
/// wait for what the stream does next.
static status find_gift(exec_cuda_handovers *handovers, void *stream, size_t bytes,
                        exec_cuda_gift **found, error_message *err)
{
    for (int index = 0; index < handovers->gift_count; index++) {
        exec_cuda_gift *gift = handovers->gifts[index];
        const int state = atomic_load_explicit(&gift->state, memory_order_acquire);
        if (state == GIFT_OFFERED || gift->capacity_bytes < bytes) continue;
        if (state == GIFT_TAKEN) {
            const cudaError_t copied = cudaEventQuery(gift->taken);
            if (copied == cudaErrorNotReady) continue;
            TRY_CUDA(copied);
        }
        *found = gift;
        return STATUS_OK;
    }
    return make_gift(handovers, stream, bytes, found, err);
}

status exec_cuda_give_begin(exec_cuda_handovers *handovers, void *stream, size_t bytes,
                            exec_handover *described, error_message *err)
{
    exec_cuda_gift *gift = NULL;
    TRY(find_gift(handovers, stream, bytes, &gift, err));
    *described = (exec_handover){.magic = magic,
                                 .memory = gift->device_buffer,
                                 .byte_count = (int64_t)bytes,
                                 .ready = gift->ready,
                                 .taken = gift->taken,
                                 .state = &gift->state};
    return STATUS_OK;
}

status exec_cuda_give_end(void *stream, const exec_handover *described, error_message *err)
{
    TRY_CUDA(cudaEventRecord(described->ready, stream));
    atomic_store_explicit((atomic_int *)described->state, GIFT_OFFERED, memory_order_release);
    return STATUS_OK;
}

status exec_cuda_take_begin(void *stream, const exec_handover *described, error_message *err)
{
    if (described->magic != magic) {
        return error_set(err, STATUS_BACKEND, "a message from another stage is no handover");
    }
    TRY_CUDA(cudaStreamWaitEvent(stream, described->ready, 0));
    return STATUS_OK;
}

status exec_cuda_take_end(void *stream, const exec_handover *described, error_message *err)
{
    TRY_CUDA(cudaEventRecord(described->taken, stream));
    atomic_store_explicit((atomic_int *)described->state, GIFT_TAKEN, memory_order_release);
    return STATUS_OK;
}

bool exec_cuda_is_handover(const void *bytes, int64_t byte_count)
{
    exec_handover described;
    if (byte_count < (int64_t)sizeof described) return false;
    memcpy(&described, bytes, sizeof described);
    return described.magic == magic;
}

void exec_cuda_handovers_reset(exec_cuda_handovers *handovers)
{
    for (int index = 0; index < handovers->gift_count; index++) {
        const int state =
            atomic_load_explicit(&handovers->gifts[index]->state, memory_order_acquire);
        if (state != GIFT_OFFERED) destroy_gift(handovers->gifts[index]);
    }
    free(handovers->gifts);
    *handovers = (exec_cuda_handovers){0};
}
