/// The emulated runtime and driver: see cuda_runtime_api.h and cuda.h here.

#include "cuda.h"
#include "cuda_runtime_api.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICE_MULTIPROCESSORS = 132, GROUP_STEP = 8 };
static const size_t DEVICE_BYTES = (size_t)1 << 34;

struct CUevent_st {
    int64_t recorded_ns;
};

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    if (bytes > DEVICE_BYTES) return cudaErrorMemoryAllocation;
    void *allocated = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (allocated == NULL) return cudaErrorMemoryAllocation;
    memset(allocated, 0xff, bytes); // NaN where nobody has written
    *memory = allocated;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind;
    (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(memory, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    (void)attribute;
    (void)device;
    *value = DEVICE_MULTIPROCESSORS;
    return cudaSuccess;
}

/// Streams are told apart by nothing: what is enqueued has run.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = NULL;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream;
    (void)flags;
    return event != NULL ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = calloc(1, sizeof **event);
    return *event != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    (void)flags;
    return cudaEventCreate(event);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)stream;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->recorded_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *elapsed_ms, cudaEvent_t from, cudaEvent_t to)
{
    *elapsed_ms = (float)((double)(to->recorded_ns - from->recorded_ns) * 1e-6);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorEmulated";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an emulated call failed";
}

CUresult cuInit(unsigned flags)
{
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    (void)device;
    (void)type;
    resource->sm.smCount = DEVICE_MULTIPROCESSORS;
    return CUDA_SUCCESS;
}

/// As the driver: as many groups as fit, of the size wanted rounded up; groups NULL only counts.
CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned *count,
                                     const CUdevResource *from, CUdevResource *rest, unsigned flags,
                                     unsigned minimum)
{
    (void)flags;
    const unsigned size = (minimum + GROUP_STEP - 1) / GROUP_STEP * GROUP_STEP;
    const unsigned fitting = from->sm.smCount / size;
    if (groups == NULL) {
        *count = fitting;
        return CUDA_SUCCESS;
    }
    if (*count > fitting) *count = fitting;
    for (unsigned group = 0; group < *count; group++) {
        groups[group].sm.smCount = size;
    }
    if (rest != NULL) rest->sm.smCount = from->sm.smCount - *count * size;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *description, CUdevResource *resources,
                                   unsigned count)
{
    *description = NULL;
    return resources[0].sm.smCount > 0 && count == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGreenCtxCreate(CUgreenCtx *context, CUdevResourceDesc description, CUdevice device,
                          unsigned flags)
{
    (void)description;
    (void)device;
    (void)flags;
    *context = malloc(1);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx context)
{
    free(context);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx context, unsigned flags, int priority)
{
    (void)context;
    (void)flags;
    (void)priority;
    *stream = NULL;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    *name = result == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_EMULATED";
    return CUDA_SUCCESS;
}
