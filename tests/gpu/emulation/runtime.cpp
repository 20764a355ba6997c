/// The emulated runtime and driver: see emulation.h, cuda_runtime_api.h and cuda.h here.

#include "emulation.h"

#include "cuda.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <vector>

enum { DEVICE_MULTIPROCESSORS = 132, GROUP_STEP = 8, DEVICES_MAX = 16 };
static const size_t DEVICE_BYTES = (size_t)1 << 30, POISON_MAX = (size_t)1 << 20;
static const size_t GUARDED_BYTES = (size_t)1 << 30;

/// A record is done when what stood before it in its stream is.
struct event_state {
    int recorded = 0, done = 0;
    int64_t done_ns = 0;
};

struct CUevent_st {
    bool has_time = true;
    std::shared_ptr<event_state> state = std::make_shared<event_state>();
};

struct CUstream_st {
    int device;
    bool is_destroyed = false;
    std::deque<gpu::task> queue;
};

static std::mutex lock;
static std::condition_variable moved;
static std::vector<CUstream_st *> streams;
static std::map<const void *, size_t> sizes;         // of device memory
static std::map<const void *, size_t> allowed_bytes; // of shared memory, of a kernel
static uint64_t random_state = 1;
static int task_count;
static thread_local int wait_count;
static char
    *guarded; // [GUARDED_BYTES] handed out in order, never again; NULL: memory is not guarded
static size_t guarded_count;
static cudaError_t failure[DEVICES_MAX];
static thread_local int current_device;
static thread_local bool has_context;

namespace gpu
{
gpu_emulation behaviour = {1, 8, 50, 4096, 0, false, false, 0};
int message_count;

unsigned draw(unsigned below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(random_state >> 33) % below;
}

void open_memory(bool is_open)
{
    const int access = is_open ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (guarded != NULL && mprotect(guarded, guarded_count, access) != 0) abort();
}

/// Runs the head of some stream; false: none can.
static bool advance()
{
    const size_t count = streams.size();
    const size_t first = count > 0 ? draw((unsigned)count) : 0;
    for (size_t step = 0; step < count; step++) {
        CUstream_st *stream = streams[(first + step) % count];
        if (stream->queue.empty() || !stream->queue.front()()) continue;
        stream->queue.pop_front();
        if (stream->queue.empty() && stream->is_destroyed) {
            streams.erase(streams.begin() + (long)((first + step) % count));
            delete stream;
        }
        return true;
    }
    return false;
}

/// Other threads get the lock between any two tasks.
void drive_until(const std::function<bool()> &holds)
{
    std::unique_lock<std::mutex> held(lock);
    wait_count++;
    while (!holds()) {
        if (!advance()) {
            moved.wait(held);
            continue;
        }
        moved.notify_all();
        held.unlock();
        held.lock();
    }
}

static void advance_at_random()
{
    for (int count = (int)draw(4); count > 0 && advance(); count--) {
    }
}

void drive_some()
{
    std::lock_guard<std::mutex> held(lock);
    advance_at_random();
    moved.notify_all();
}

void change(const std::function<void()> &what)
{
    std::lock_guard<std::mutex> held(lock);
    what();
    moved.notify_all();
}

void push(cudaStream_t stream, task next)
{
    stream->queue.push_back(std::move(next));
    if ((int)draw(100) < behaviour.eagerness) advance_at_random();
}

void allow_shared_bytes(const void *kernel, size_t bytes)
{
    change([&] { allowed_bytes[kernel] = bytes; });
}

size_t allowed_shared_bytes(const void *kernel)
{
    std::lock_guard<std::mutex> held(lock);
    return allowed_bytes[kernel];
}

bool has_failed(cudaStream_t stream)
{
    return failure[stream->device] != cudaSuccess;
}

cudaError_t enqueue_work(cudaStream_t stream, std::function<void()> work)
{
    const int device = stream->device;
    cudaError_t error = cudaSuccess;
    change([&] {
        error = failure[device];
        if (error != cudaSuccess) return;
        push(stream, [device, work = std::move(work)] {
            if (++task_count == behaviour.failing_task) failure[device] = cudaErrorLaunchFailure;
            open_memory(true);
            if (failure[device] == cudaSuccess) work();
            open_memory(false);
            return true;
        });
    });
    return error;
}
} // namespace gpu

using gpu::change;
using gpu::drive_until;

void gpu_emulation_begin(const gpu_emulation *behaviour)
{
    change([&] {
        gpu::behaviour = *behaviour;
        random_state = behaviour->seed * 2 + 1;
        task_count = wait_count = gpu::message_count = 0;
        if (guarded != NULL) munmap(guarded, GUARDED_BYTES);
        guarded = NULL;
        guarded_count = 0;
        if (behaviour->guards_memory) {
            const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
            guarded = (char *)mmap(NULL, GUARDED_BYTES, PROT_NONE, kind, -1, 0);
            if (guarded == (char *)MAP_FAILED) abort();
        }
        memset(failure, 0, sizeof failure);
    });
}

int gpu_emulation_task_count(void)
{
    return task_count;
}

int gpu_emulation_message_count(void)
{
    return gpu::message_count;
}

int gpu_emulation_wait_count(void)
{
    return wait_count;
}

cudaError_t gpu_emulation_enqueue(cudaStream_t stream, void (*work)(const void *argument),
                                  const void *argument, size_t bytes)
{
    const std::vector<char> kept((const char *)argument, (const char *)argument + bytes);
    return gpu::enqueue_work(stream, [=] { work(kept.data()); });
}

int gpu_emulation_queued_count(void)
{
    std::lock_guard<std::mutex> held(lock);
    size_t count = 0;
    for (const CUstream_st *stream : streams) {
        count += stream->queue.size();
    }
    return (int)count;
}

static cudaError_t failure_now()
{
    std::lock_guard<std::mutex> held(lock);
    return failure[current_device];
}

static bool device_is_idle()
{
    for (const CUstream_st *stream : streams) {
        if (stream->device == current_device && !stream->queue.empty()) return false;
    }
    return true;
}

// Memory

/// NaN where nobody has written; not in workspaces, which would take longer than all else.
static void poison(void *memory, size_t bytes)
{
    gpu::open_memory(true);
    memset(memory, 0xff, bytes < POISON_MAX ? bytes : POISON_MAX);
    gpu::open_memory(false);
}

static void *take_guarded(size_t bytes)
{
    char *taken = guarded + guarded_count;
    guarded_count += (bytes + 4095) / 4096 * 4096;
    return guarded_count <= GUARDED_BYTES ? taken : NULL;
}

static cudaError_t allocate(void **memory, size_t bytes)
{
    if (bytes > DEVICE_BYTES) return cudaErrorMemoryAllocation;
    void *allocated = NULL;
    change([&] {
        allocated =
            guarded != NULL ? take_guarded(bytes) : aligned_alloc(256, (bytes + 255) / 256 * 256);
        if (allocated == NULL) return;
        poison(allocated, bytes);
        sizes[allocated] = bytes;
    });
    if (allocated == NULL) return cudaErrorMemoryAllocation;
    *memory = allocated;
    return failure_now();
}

/// Waits for all streams of the device, as the real one may.
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    drive_until(device_is_idle);
    return allocate(memory, bytes);
}

/// All memory is the host's, which every device may touch.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    *pool = NULL;
    return device >= 0 && device < gpu::behaviour.device_count ? failure_now()
                                                               : cudaErrorInvalidValue;
}

cudaError_t cudaDeviceCanAccessPeer(int *can_access, int device, int peer)
{
    *can_access = device != peer;
    return failure_now();
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *access, size_t count)
{
    (void)pool;
    return count == 1 && access->flags == cudaMemAccessFlagsProtReadWrite ? failure_now()
                                                                          : cudaErrorInvalidValue;
}

/// The memory is there when the stream has come so far: what another wrote before is lost.
cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t stream)
{
    const cudaError_t error = allocate(memory, bytes);
    void *allocated = *memory;
    if (error != cudaSuccess) return error;
    return gpu::enqueue_work(stream, [=] { poison(allocated, bytes); });
}

/// Waits for all streams of the device, as the real one does.
cudaError_t cudaFree(void *memory)
{
    has_context = true;
    if (memory == NULL) return failure_now();
    drive_until(device_is_idle);
    change([&] {
        poison(memory, sizes.at(memory));
        sizes.erase(memory);
    });
    if (guarded == NULL) free(memory);
    return failure_now();
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    *memory = calloc(1, bytes);
    return *memory != NULL ? failure_now() : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *memory)
{
    if (memory != NULL) drive_until(device_is_idle);
    free(memory);
    return failure_now();
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind;
    return gpu::enqueue_work(stream, [=] { memcpy(to, from, bytes); });
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    return gpu::enqueue_work(stream, [=] { memset(memory, value, bytes); });
}

// Devices

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= gpu::behaviour.device_count) return cudaErrorInvalidValue;
    current_device = device;
    has_context = true;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = gpu::behaviour.device_count;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    (void)attribute;
    (void)device;
    *value = DEVICE_MULTIPROCESSORS;
    return cudaSuccess;
}

// Streams

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    change([&] {
        *stream = new CUstream_st{current_device, false, {}};
        streams.push_back(*stream);
    });
    return failure_now();
}

/// What is enqueued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    change([&] {
        stream->is_destroyed = true;
        stream->queue.push_back([] { return true; });
    });
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    drive_until([=] { return stream->queue.empty() || failure[stream->device] != cudaSuccess; });
    return failure_now();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    if (event == NULL) return cudaErrorInvalidValue;
    change([&] {
        const int awaited = event->state->recorded;
        stream->queue.push_back([state = event->state, awaited] { return state->done >= awaited; });
    });
    return failure_now();
}

// Events

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = new CUevent_st;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    const cudaError_t error = cudaEventCreate(event);
    (*event)->has_time = (flags & cudaEventDisableTiming) == 0;
    return error;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    change([&] {
        const int number = ++event->state->recorded;
        stream->queue.push_back([state = event->state, number] {
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            state->done_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
            state->done = number;
            return true;
        });
    });
    return failure_now();
}

static bool is_done(cudaEvent_t event)
{
    return event->state->done == event->state->recorded;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    std::lock_guard<std::mutex> held(lock);
    if (failure[current_device] != cudaSuccess) return failure[current_device];
    return is_done(event) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    drive_until([=] { return is_done(event) || failure[current_device] != cudaSuccess; });
    return failure_now();
}

cudaError_t cudaEventElapsedTime(float *elapsed_ms, cudaEvent_t from, cudaEvent_t to)
{
    std::lock_guard<std::mutex> held(lock);
    const bool can_tell =
        from->has_time && to->has_time && from->state->recorded > 0 && to->state->recorded > 0;
    if (!can_tell) return cudaErrorInvalidResourceHandle;
    if (!is_done(from) || !is_done(to)) return cudaErrorNotReady;
    *elapsed_ms = (float)((double)(to->state->done_ns - from->state->done_ns) * 1e-6);
    return failure[current_device];
}

// Errors

cudaError_t cudaGetLastError(void)
{
    return failure_now();
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
           : error == cudaErrorLaunchFailure  ? "cudaErrorLaunchFailure"
           : error == cudaErrorNotReady       ? "cudaErrorNotReady"
                                              : "cudaErrorEmulated";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory"
           : error == cudaErrorLaunchFailure  ? "unspecified launch failure"
                                              : "an emulated call failed";
}

// The driver: one device of 132 multiprocessors

CUresult cuInit(unsigned flags)
{
    (void)flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = has_context ? (CUcontext)&has_context : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = current_device;
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
    if (minimum > from->sm.smCount) return CUDA_ERROR_INVALID_VALUE;
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
    if (flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    *context = (CUgreenCtx)malloc(1);
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
    (void)priority;
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    return cudaStreamCreateWithFlags(stream, flags) == cudaSuccess ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
    *name = result == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_EMULATED";
    return CUDA_SUCCESS;
}
