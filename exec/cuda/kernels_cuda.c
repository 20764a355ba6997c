#include "exec/cuda/kernels_cuda.h"
#include "base/arena.h"
#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_check.h"
#include "exec/cuda/cuda_handover.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STAGE_COUNT = 4, STAGE_ALIGNMENT = 256 };
static const size_t STAGE_BYTES = (size_t)1 << 20;

/// Memory of the host that the GPU reads by itself. Copies to the GPU go by way of it: what they
/// copy may change at once, and nobody waits for the stream.
typedef struct stage {
    char *pinned; // [STAGE_BYTES]
    cudaEvent_t is_read;
} stage;

/// A rank's kernels: a stream on a part of the GPU, and what products and attention need there.
/// Operations are enqueued in order; the first that fails is remembered until finish.
typedef struct cuda_kernels {
    exec_cuda_queue queue; // first
    exec_kernel_table table;
    exec_cuda_part part;
    exec_cuda_products *products;
    exec_cuda_blocks blocks;
    exec_cuda_handovers handovers;
    void *device_scratch; // of one operation at a time
    size_t scratch_bytes;
    void **outgrown; // [outgrown_count] that kernels may still use
    int outgrown_count;
    stage stages[STAGE_COUNT];
    int stage;           // that is being filled
    size_t staged_bytes; // of it
    cudaEvent_t *marks;  // [mark_count]
    int mark_count;
    cudaEvent_t forked, joined; // between the stream and the one beside; NULL: there is none
    bool is_beside;             // part.stream and part.beside have changed places
} cuda_kernels;

static cuda_kernels *of(exec_kernels *kernels)
{
    return (cuda_kernels *)kernels;
}

/// Notes that an operation could not be enqueued, or that a kernel before it has failed.
void exec_cuda_note(exec_kernels *kernels, int error, const char *call)
{
    error_message *failure = &of(kernels)->queue.failure;
    if (error != 0 && failure->code == STATUS_OK) exec_cuda_failure(error, call, failure);
}

void exec_cuda_retire(exec_kernels *kernels, void *memory)
{
    cuda_kernels *cuda = of(kernels);
    if (memory == NULL) return;
    cuda->outgrown =
        memory_grow(cuda->outgrown, (size_t)cuda->outgrown_count, sizeof *cuda->outgrown);
    cuda->outgrown[cuda->outgrown_count++] = memory;
}

void *exec_cuda_scratch(exec_kernels *kernels, size_t bytes)
{
    cuda_kernels *cuda = of(kernels);
    if (bytes <= cuda->scratch_bytes) return cuda->device_scratch;
    const size_t doubled = 2 * cuda->scratch_bytes;
    const size_t grown = bytes > doubled ? bytes : doubled;
    void *made = NULL;
    const cudaError_t error = cudaMallocAsync(&made, grown, cuda->part.stream);
    exec_cuda_note(kernels, (int)error, "cudaMallocAsync of scratch memory");
    if (error != cudaSuccess) return NULL;
    exec_cuda_retire(kernels, cuda->device_scratch);
    cuda->device_scratch = made;
    cuda->scratch_bytes = grown;
    return made;
}

// Memory

static bool has_failed(const cuda_kernels *cuda)
{
    return cuda->queue.failure.code != STATUS_OK;
}

/// In the order of the stream: cudaMalloc may wait for all that the GPU does, and so for messages
/// of ranks that wait for this one (CUDA C++ Programming Guide, Implicit Synchronization).
static void *cuda_allocate(exec_kernels *kernels, size_t bytes)
{
    cuda_kernels *cuda = of(kernels);
    void *allocated = NULL;
    const cudaError_t error = cudaMallocAsync(&allocated, bytes > 0 ? bytes : 1, cuda->part.stream);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); // or the next launch would report it again
        if (!has_failed(cuda)) {
            error_set(&cuda->queue.failure, STATUS_NO_MEMORY, "the GPU has no memory for %zu bytes",
                      bytes);
        }
        return NULL;
    }
    exec_cuda_note(kernels, (int)error, "cudaMallocAsync");
    if (error != cudaSuccess) return NULL;
    exec_cuda_note(kernels, (int)cudaMemsetAsync(allocated, 0, bytes, cuda->part.stream),
                   "cudaMemsetAsync");
    return allocated;
}

static void cuda_release(exec_kernels *kernels, void *memory)
{
    (void)kernels;
    if (memory != NULL) cudaFree(memory);
}

/// All stages at once: an allocation during training might wait for the whole GPU, and so for
/// messages of ranks that wait for this one.
static status make_stages(cuda_kernels *cuda, error_message *err)
{
    for (int index = 0; index < STAGE_COUNT; index++) {
        stage *made = &cuda->stages[index];
        TRY_CUDA(cudaEventCreateWithFlags(&made->is_read, cudaEventDisableTiming));
        TRY_CUDA(cudaMallocHost((void **)&made->pinned, STAGE_BYTES));
    }
    return STATUS_OK;
}

/// Goes on to the next stage, which is free when the GPU has read what was last put there.
static cudaError_t next_stage(cuda_kernels *cuda)
{
    const cudaError_t error = cudaEventRecord(cuda->stages[cuda->stage].is_read, cuda->part.stream);
    if (error != cudaSuccess) return error;
    cuda->stage = (cuda->stage + 1) % STAGE_COUNT;
    cuda->staged_bytes = 0;
    return cudaEventSynchronize(cuda->stages[cuda->stage].is_read);
}

static void cuda_to_device(exec_kernels *kernels, void *device, const void *host, size_t bytes)
{
    cuda_kernels *cuda = of(kernels);
    cudaError_t error = cudaSuccess;
    if (has_failed(cuda)) return;
    for (size_t done = 0; done < bytes && error == cudaSuccess;) {
        if (cuda->staged_bytes == STAGE_BYTES) {
            error = next_stage(cuda);
            if (error != cudaSuccess) break;
        }
        const size_t room = STAGE_BYTES - cuda->staged_bytes;
        const size_t piece = bytes - done < room ? bytes - done : room;
        char *pinned = cuda->stages[cuda->stage].pinned + cuda->staged_bytes;
        memcpy(pinned, (const char *)host + done, piece);
        error = cudaMemcpyAsync((char *)device + done, pinned, piece, cudaMemcpyHostToDevice,
                                cuda->part.stream);
        const size_t aligned = (piece + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT * STAGE_ALIGNMENT;
        cuda->staged_bytes += aligned;
        done += piece;
    }
    exec_cuda_note(kernels, (int)error, "a copy to the GPU");
}

static void cuda_to_host(exec_kernels *kernels, void *host, const void *device, size_t bytes)
{
    const cudaStream_t stream = of(kernels)->part.stream;
    if (has_failed(of(kernels))) return;
    exec_cuda_note(kernels,
                   (int)cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream),
                   "a copy from the GPU");
    exec_cuda_note(kernels, (int)cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static void cuda_clear(exec_kernels *kernels, void *memory, size_t bytes)
{
    if (has_failed(of(kernels))) return;
    exec_cuda_note(kernels, (int)cudaMemsetAsync(memory, 0, bytes, of(kernels)->part.stream),
                   "cudaMemsetAsync");
}

static status cuda_check(exec_kernels *kernels, error_message *err)
{
    cuda_kernels *cuda = of(kernels);
    const error_message failure = cuda->queue.failure;
    cuda->queue.failure = (error_message){.code = STATUS_OK};
    if (failure.code == STATUS_OK) return STATUS_OK;
    return error_set(err, failure.code, "%s", failure.message);
}

static status cuda_finish(exec_kernels *kernels, error_message *err)
{
    exec_cuda_note(kernels, (int)cudaStreamSynchronize(of(kernels)->part.stream),
                   "cudaStreamSynchronize");
    return cuda_check(kernels, err);
}

// A stream beside

static void swap_streams(cuda_kernels *cuda)
{
    void *other = cuda->part.beside;
    cuda->part.beside = cuda->part.stream;
    cuda->part.stream = cuda->queue.stream = other;
    cuda->is_beside = !cuda->is_beside;
}

/// Has a stream wait for what another has been told so far.
static void chain(cuda_kernels *cuda, void *from, cudaEvent_t event, void *to)
{
    cudaError_t error = cudaEventRecord(event, from);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(to, event, 0);
    exec_cuda_note(&cuda->queue.base, (int)error, "an event between streams");
}

static void cuda_beside(exec_kernels *kernels, bool begins)
{
    cuda_kernels *cuda = of(kernels);
    assert(begins != cuda->is_beside);
    if (begins) chain(cuda, cuda->part.stream, cuda->forked, cuda->part.beside);
    swap_streams(cuda);
}

static void cuda_await_beside(exec_kernels *kernels)
{
    cuda_kernels *cuda = of(kernels);
    chain(cuda, cuda->part.beside, cuda->joined, cuda->part.stream);
}

static status make_beside(cuda_kernels *cuda, error_message *err)
{
    if (cuda->part.beside == NULL) return STATUS_OK;
    TRY_CUDA(cudaEventCreateWithFlags(&cuda->forked, cudaEventDisableTiming));
    TRY_CUDA(cudaEventCreateWithFlags(&cuda->joined, cudaEventDisableTiming));
    cuda->table.beside = cuda_beside;
    cuda->table.await_beside = cuda_await_beside;
    return STATUS_OK;
}

// The end

static void free_memory(cuda_kernels *cuda)
{
    cudaFree(cuda->device_scratch);
    for (int index = 0; index < cuda->outgrown_count; index++) {
        cudaFree(cuda->outgrown[index]);
    }
    free(cuda->outgrown);
    for (int index = 0; index < STAGE_COUNT; index++) {
        if (cuda->stages[index].is_read != NULL) cudaEventDestroy(cuda->stages[index].is_read);
        cudaFreeHost(cuda->stages[index].pinned);
    }
}

static void cuda_close(exec_kernels *kernels)
{
    cuda_kernels *cuda = of(kernels);
    if (cuda->is_beside) swap_streams(cuda);
    cudaStreamSynchronize(cuda->part.stream);
    if (cuda->part.beside != NULL) cudaStreamSynchronize(cuda->part.beside);
    if (cuda->forked != NULL) cudaEventDestroy(cuda->forked);
    if (cuda->joined != NULL) cudaEventDestroy(cuda->joined);
    for (int number = 0; number < cuda->mark_count; number++) {
        cudaEventDestroy(cuda->marks[number]);
    }
    free(cuda->marks);
    free_memory(cuda);
    exec_cuda_handovers_reset(&cuda->handovers);
    exec_cuda_blocks_reset(&cuda->blocks);
    if (cuda->products != NULL) exec_cuda_products_close(cuda->products);
    exec_cuda_part_close(&cuda->part);
    free(cuda);
}

// What needs more than a kernel

static void cuda_limit_rows(exec_kernels *kernels, const int *extent, int most)
{
    exec_cuda_queue *queue = &of(kernels)->queue;
    queue->extent = extent;
    queue->most = most;
}

/// cuBLASLt wants to be told the number of rows; where only the GPU knows it, they are a group.
static void cuda_matmul(exec_kernels *kernels, const exec_matmul *shape, const void *a,
                        const void *b, void *c)
{
    cuda_kernels *cuda = of(kernels);
    if (has_failed(cuda)) return;
    if (cuda->queue.extent != NULL) {
        const exec_groups only = {
            .count = 1, .row_count = cuda->queue.most, .first = cuda->queue.extent};
        cuda->table.group_matmul(kernels, shape, &only, a, b, c);
        return;
    }
    exec_cuda_products_multiply(cuda->products, cuda->queue.kind, shape, a, b, c,
                                &cuda->queue.failure);
}

bool exec_cuda_find_lists(exec_kernels *kernels, const exec_attention *shape,
                          exec_cuda_lists *lists)
{
    cuda_kernels *cuda = of(kernels);
    if (has_failed(cuda)) return false;
    return exec_cuda_blocks_find(&cuda->blocks, shape, kernels, lists, &cuda->queue.failure) ==
           STATUS_OK;
}

static double cuda_sum_of_squares(exec_kernels *kernels, const float *values, size_t count)
{
    double partial[EXEC_CUDA_SQUARE_PARTS_MAX] = {0};
    double *device_partial = exec_cuda_scratch(kernels, sizeof partial);
    if (device_partial == NULL) return NAN;
    const int parts = exec_cuda_square_parts(kernels, values, count, device_partial);
    cuda_to_host(kernels, partial, device_partial, (size_t)parts * sizeof *partial);
    double sum = 0.0;
    for (int part = 0; part < parts; part++) {
        sum += partial[part];
    }
    return sum;
}

// Time, and hand-over to other stages

static void cuda_mark(exec_kernels *kernels, int number)
{
    cuda_kernels *cuda = of(kernels);
    if (has_failed(cuda)) return;
    cudaError_t error = cudaSuccess;
    while (number >= cuda->mark_count && error == cudaSuccess) {
        cuda->marks = memory_grow(cuda->marks, (size_t)cuda->mark_count, sizeof *cuda->marks);
        error = cudaEventCreate(&cuda->marks[cuda->mark_count]);
        if (error == cudaSuccess) cuda->mark_count++;
    }
    if (error == cudaSuccess) error = cudaEventRecord(cuda->marks[number], cuda->part.stream);
    exec_cuda_note(kernels, (int)error, "an event that notes the time");
}

static int64_t cuda_mark_ns(exec_kernels *kernels, int number)
{
    cuda_kernels *cuda = of(kernels);
    float elapsed_ms = 0.0f;
    assert(number < cuda->mark_count);
    exec_cuda_note(kernels,
                   (int)cudaEventElapsedTime(&elapsed_ms, cuda->marks[0], cuda->marks[number]),
                   "cudaEventElapsedTime");
    return llround((double)elapsed_ms * 1e6);
}

static void *cuda_stream(exec_kernels *kernels)
{
    return of(kernels)->part.stream;
}

static status cuda_offer(exec_kernels *kernels, const void *memory, size_t bytes,
                         exec_handover *described, error_message *err)
{
    cuda_kernels *cuda = of(kernels);
    void *stream = cuda->part.stream;
    TRY(exec_cuda_give_begin(&cuda->handovers, stream, bytes, described, err));
    cuda->table.copy(kernels, described->memory, memory, bytes);
    return exec_cuda_give_end(stream, described, err);
}

static status cuda_take(exec_kernels *kernels, const exec_handover *described, void *to,
                        error_message *err)
{
    void *stream = of(kernels)->part.stream;
    TRY(exec_cuda_take_begin(stream, described, err));
    kernels->table->copy(kernels, to, described->memory, (size_t)described->byte_count);
    return exec_cuda_take_end(stream, described, err);
}

/// Without sparse products: pruned matrices stay dense here.
static void fill_table(exec_kernel_table *table, exec_cuda_kind kind)
{
    const bool is_bf16 = kind == EXEC_CUDA_BF16;
    *table = (exec_kernel_table){.name = is_bf16 ? "cuda bf16" : "cuda fp32",
                                 .value_bytes = is_bf16 ? 2 : 4,
                                 .has_host_memory = false,
                                 .allocate = cuda_allocate,
                                 .release = cuda_release,
                                 .to_device = cuda_to_device,
                                 .to_host = cuda_to_host,
                                 .clear = cuda_clear,
                                 .finish = cuda_finish,
                                 .check = cuda_check,
                                 .close = cuda_close,
                                 .matmul = cuda_matmul,
                                 .limit_rows = cuda_limit_rows,
                                 .sum_of_squares = cuda_sum_of_squares,
                                 .mark = cuda_mark,
                                 .mark_ns = cuda_mark_ns,
                                 .stream = cuda_stream,
                                 .offer = cuda_offer,
                                 .take = cuda_take};
    exec_cuda_fill_kernels(table);
}

status exec_cuda_kernels_open(exec_cuda_kind kind, int place, int place_count,
                              exec_kernels **kernels, error_message *err)
{
    exec_cuda_part part;
    TRY(exec_cuda_part_open(place, place_count, &part, err));
    cuda_kernels *cuda = memory_array(1, sizeof *cuda);
    fill_table(&cuda->table, kind);
    cuda->queue =
        (exec_cuda_queue){.base.table = &cuda->table, .kind = kind, .stream = part.stream};
    cuda->part = part;
    status opened = exec_cuda_products_open(&cuda->part, &cuda->products, err);
    if (opened == STATUS_OK) opened = make_stages(cuda, err);
    if (opened == STATUS_OK) opened = make_beside(cuda, err);
    if (opened != STATUS_OK) {
        cuda_close(&cuda->queue.base);
        return opened;
    }
    *kernels = &cuda->queue.base;
    return STATUS_OK;
}
