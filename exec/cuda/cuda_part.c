#include "exec/cuda/cuda_backend.h"

#include "base/launcher.h"
#include "exec/cuda/cuda_check.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>

/// The split of the GPU that the parts of this process share. It outlives each of them: it ends
/// when the last one is closed.
typedef struct gpu_split {
    int user_count;
    int place_count;
    CUdevResource group[EXEC_CUDA_PARTS_MAX];
} gpu_split;

static pthread_mutex_t split_lock = PTHREAD_MUTEX_INITIALIZER;
static gpu_split split;

/// Finds the largest group size that gives a group to every place: sizes come in steps that the
/// driver tells, and how many groups fit depends on how multiprocessors are wired.
static status split_gpu(CUdevice device, int place_count, error_message *err)
{
    CUdevResource all;
    TRY_DRIVER(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    const unsigned step = 2;
    for (unsigned size = all.sm.smCount / (unsigned)place_count / step * step; size >= step;
         size -= step) {
        unsigned count = 0;
        if (cuDevSmResourceSplitByCount(NULL, &count, &all, NULL, 0, size) != CUDA_SUCCESS) {
            continue;
        }
        if (count < (unsigned)place_count) continue;
        count = (unsigned)place_count;
        CUdevResource rest;
        TRY_DRIVER(cuDevSmResourceSplitByCount(split.group, &count, &all, &rest, 0, size));
        split.place_count = place_count;
        return STATUS_OK;
    }
    return error_set(err, STATUS_INFEASIBLE,
                     "the GPU's %u multiprocessors cannot be split into %d parts", all.sm.smCount,
                     place_count);
}

/// The GPU of a process that has chosen none: by the launcher's number of it on its machine.
static status own_device(CUdevice *device, error_message *err)
{
    int device_count = 0;
    TRY_CUDA(cudaGetDeviceCount(&device_count));
    *device = device_count > 0 ? launcher_local_rank(0) % device_count : 0;
    return STATUS_OK;
}

/// Makes the primary context of the thread's GPU current, and tells the GPU.
static status enter_device(CUdevice *device, error_message *err)
{
    exec_cuda_ask_driver();
    const CUresult result = cuInit(0);
    if (result != CUDA_SUCCESS) {
        const char *name = "unknown error";
        cuGetErrorName(result, &name);
        return error_set(err, STATUS_UNSUPPORTED, "no GPU can be used here: cuInit says %s", name);
    }
    CUcontext current = NULL;
    TRY_DRIVER(cuCtxGetCurrent(&current));
    if (current != NULL) {
        TRY_DRIVER(cuCtxGetDevice(device));
    } else {
        TRY(own_device(device, err));
    }
    TRY_CUDA(cudaSetDevice(*device));
    TRY_CUDA(cudaFree(NULL)); // makes the context
    return STATUS_OK;
}

static status open_stream(exec_cuda_part *part, CUdevice device, error_message *err)
{
    if (part->place_count == 1) {
        cudaStream_t stream;
        TRY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        part->stream = stream;
        TRY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        part->beside = stream;
        part->multiprocessor_count = part->device_multiprocessor_count;
        return STATUS_OK;
    }
    CUdevResource *group = &split.group[part->place];
    CUdevResourceDesc description;
    CUgreenCtx context;
    CUstream stream;
    TRY_DRIVER(cuDevResourceGenerateDesc(&description, group, 1));
    TRY_DRIVER(cuGreenCtxCreate(&context, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    const CUresult result = cuGreenCtxStreamCreate(&stream, context, CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS) {
        cuGreenCtxDestroy(context);
        return exec_cuda_driver_failure((int)result, "cuGreenCtxStreamCreate", err);
    }
    part->green_context = context;
    part->stream = stream;
    part->multiprocessor_count = (int)group->sm.smCount;
    return STATUS_OK;
}

/// With the lock held.
static status open_part(exec_cuda_part *part, error_message *err)
{
    CUdevice device;
    TRY(enter_device(&device, err));
    TRY_CUDA(cudaDeviceGetAttribute(&part->device_multiprocessor_count,
                                    cudaDevAttrMultiProcessorCount, device));
    if (part->place_count > 1 && split.user_count > 0 && split.place_count != part->place_count) {
        return error_set(err, STATUS_INVALID, "the GPU is split into %d parts already, not into %d",
                         split.place_count, part->place_count);
    }
    if (part->place_count > 1 && split.user_count == 0) {
        TRY(split_gpu(device, part->place_count, err));
    }
    TRY(open_stream(part, device, err));
    if (part->place_count > 1) split.user_count++;
    return STATUS_OK;
}

status exec_cuda_part_open(int place, int place_count, exec_cuda_part *part, error_message *err)
{
    if (place_count < 1 || place_count > EXEC_CUDA_PARTS_MAX) {
        return error_set(err, STATUS_INVALID, "%d stages on one GPU are outside [1, %d]",
                         place_count, EXEC_CUDA_PARTS_MAX);
    }
    if (place < 0 || place >= place_count) {
        return error_set(err, STATUS_INVALID, "place %d is outside [0, place_count %d)", place,
                         place_count);
    }
    exec_cuda_part opened = {.place = place, .place_count = place_count};
    pthread_mutex_lock(&split_lock);
    const status result = open_part(&opened, err);
    pthread_mutex_unlock(&split_lock);
    if (result == STATUS_OK) *part = opened;
    return result;
}

void exec_cuda_part_close(exec_cuda_part *part)
{
    cudaStreamDestroy(part->stream);
    if (part->beside != NULL) cudaStreamDestroy(part->beside);
    if (part->green_context == NULL) return;
    cuGreenCtxDestroy(part->green_context);
    pthread_mutex_lock(&split_lock);
    split.user_count--;
    pthread_mutex_unlock(&split_lock);
}
