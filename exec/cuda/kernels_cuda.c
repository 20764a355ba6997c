#include "exec/cuda/kernels_cuda.h"
#include "base/arena.h"
#include "exec/cuda/cuda_blocks.h"
#include "exec/cuda/cuda_check.h"
#include "exec/cuda/cuda_handover.h"
#include "exec/cuda/cuda_part.h"
#include "exec/cuda/cuda_products.h"
#include "exec/cuda/kernels_cuda_open.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/// A rank's kernels: a stream on a part of the GPU, and what products and attention need there.
/// Operations are enqueued in order; the first that fails is remembered until finish.
typedef struct cuda_kernels {
    exec_kernels base; // first
    exec_cuda_kind kind;
    exec_cuda_part part;
    exec_cuda_products *products;
    exec_cuda_blocks blocks;
    exec_cuda_handovers handovers;
    void *device_scratch; // of one operation at a time
    size_t scratch_bytes;
    cudaEvent_t *marks; // [mark_count]
    int mark_count;
    error_message failure; // code STATUS_OK: none yet
} cuda_kernels;

static cuda_kernels *of(exec_kernels *kernels)
{
    return (cuda_kernels *)kernels;
}

/// Notes that an operation could not be enqueued, or that a kernel before it has failed.
static void note(cuda_kernels *cuda, int error, const char *operation)
{
    if (error == 0 || cuda->failure.code != STATUS_OK) return;
    exec_cuda_failure(error, operation, &cuda->failure);
}

/// Grows the scratch memory. cudaFree waits for kernels that still use the old one.
static void *scratch(cuda_kernels *cuda, size_t bytes)
{
    if (bytes <= cuda->scratch_bytes) return cuda->device_scratch;
    cudaFree(cuda->device_scratch);
    cuda->device_scratch = NULL;
    cuda->scratch_bytes = 0;
    const cudaError_t error = cudaMalloc(&cuda->device_scratch, bytes);
    note(cuda, (int)error, "cudaMalloc of scratch memory");
    if (error == cudaSuccess) cuda->scratch_bytes = bytes;
    return cuda->device_scratch;
}

// Memory

static status cuda_allocate(exec_kernels *kernels, size_t bytes, void **memory, error_message *err)
{
    cuda_kernels *cuda = of(kernels);
    void *allocated = NULL;
    const cudaError_t error = cudaMalloc(&allocated, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); // or the next launch would report it again
        return error_set(err, STATUS_NO_MEMORY, "the GPU has no memory for %zu bytes", bytes);
    }
    if (error != cudaSuccess) return exec_cuda_failure((int)error, "cudaMalloc", err);
    note(cuda, (int)cudaMemsetAsync(allocated, 0, bytes, cuda->part.stream), "cudaMemsetAsync");
    *memory = allocated;
    return STATUS_OK;
}

static void cuda_release(exec_kernels *kernels, void *memory)
{
    (void)kernels;
    cudaFree(memory);
}

static void cuda_to_device(exec_kernels *kernels, void *device, const void *host, size_t bytes)
{
    note(
        of(kernels),
        (int)cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, of(kernels)->part.stream),
        "copy to the GPU");
}

static void cuda_to_host(exec_kernels *kernels, void *host, const void *device, size_t bytes)
{
    const cudaStream_t stream = of(kernels)->part.stream;
    note(of(kernels), (int)cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream),
         "copy from the GPU");
    note(of(kernels), (int)cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

static void cuda_copy(exec_kernels *kernels, void *to, const void *from, size_t bytes)
{
    note(of(kernels), exec_cuda_copy(of(kernels)->part.stream, to, from, bytes), "copy");
}

static void cuda_clear(exec_kernels *kernels, void *memory, size_t bytes)
{
    note(of(kernels), (int)cudaMemsetAsync(memory, 0, bytes, of(kernels)->part.stream), "clear");
}

static void cuda_to_values(exec_kernels *kernels, const float *from, void *values, size_t count)
{
    cuda_kernels *cuda = of(kernels);
    if (cuda->kind == EXEC_CUDA_BF16) {
        note(cuda, exec_cuda_to_bf16(cuda->part.stream, from, values, count), "to_values");
    } else if (values != from) {
        cuda_copy(kernels, values, from, count * sizeof(float));
    }
}

static void cuda_to_floats(exec_kernels *kernels, const void *values, float *to, size_t count)
{
    cuda_kernels *cuda = of(kernels);
    if (cuda->kind == EXEC_CUDA_BF16) {
        note(cuda, exec_cuda_from_bf16(cuda->part.stream, values, to, count), "to_floats");
    } else if (to != values) {
        cuda_copy(kernels, to, values, count * sizeof(float));
    }
}

static status cuda_finish(exec_kernels *kernels, error_message *err)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, (int)cudaStreamSynchronize(cuda->part.stream), "cudaStreamSynchronize");
    const error_message failure = cuda->failure;
    cuda->failure = (error_message){.code = STATUS_OK};
    if (failure.code == STATUS_OK) return STATUS_OK;
    return error_set(err, failure.code, "%s", failure.message);
}

static void cuda_close(exec_kernels *kernels)
{
    cuda_kernels *cuda = of(kernels);
    cudaStreamSynchronize(cuda->part.stream);
    for (int number = 0; number < cuda->mark_count; number++) {
        cudaEventDestroy(cuda->marks[number]);
    }
    free(cuda->marks);
    cudaFree(cuda->device_scratch);
    exec_cuda_handovers_reset(&cuda->handovers);
    exec_cuda_blocks_reset(&cuda->blocks);
    if (cuda->products != NULL) exec_cuda_products_close(cuda->products);
    exec_cuda_part_close(&cuda->part);
    free(cuda);
}

// Dense operations. Each function below hands its arguments to the launcher of the same name.

static void cuda_matmul(exec_kernels *kernels, const exec_matmul *shape, const void *a,
                        const void *b, void *c)
{
    cuda_kernels *cuda = of(kernels);
    if (cuda->failure.code != STATUS_OK) return;
    exec_cuda_products_multiply(cuda->products, cuda->kind, shape, a, b, c, &cuda->failure);
}

static void cuda_add(exec_kernels *kernels, void *to, const void *from, size_t count)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_add(cuda->part.stream, cuda->kind, to, from, count), "add");
}

static void cuda_add_floats(exec_kernels *kernels, float *to, const float *from, size_t count)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_add(cuda->part.stream, EXEC_CUDA_FP32, to, from, count), "add_floats");
}

static void cuda_add_bias(exec_kernels *kernels, void *values, const void *bias, int rows,
                          int columns)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_add_bias(cuda->part.stream, cuda->kind, values, bias, rows, columns),
         "add_bias");
}

static void cuda_column_sums(exec_kernels *kernels, const void *values, int rows, int columns,
                             float *sum)
{
    cuda_kernels *cuda = of(kernels);
    float *partial = scratch(cuda, exec_cuda_column_scratch(rows, columns) * sizeof(float));
    if (partial == NULL || rows == 0) return;
    note(cuda,
         exec_cuda_column_sums(cuda->part.stream, cuda->kind, values, rows, columns, partial, sum),
         "column_sums");
}

static void cuda_layer_norm(exec_kernels *kernels, const void *input, const void *weight,
                            const void *bias, int rows, int width, void *output, float *mean,
                            float *rstd)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_layer_norm(cuda->part.stream, cuda->kind, input, weight, bias, rows, width,
                              output, mean, rstd),
         "layer_norm");
}

static void cuda_layer_norm_input(exec_kernels *kernels, const void *output_gradient,
                                  const void *input, const void *weight, const float *mean,
                                  const float *rstd, int rows, int width, void *input_gradient)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_layer_norm_input(cuda->part.stream, cuda->kind, output_gradient, input, weight,
                                    mean, rstd, rows, width, input_gradient),
         "layer_norm_input");
}

static void cuda_layer_norm_weight(exec_kernels *kernels, const void *output_gradient,
                                   const void *input, const float *mean, const float *rstd,
                                   int rows, int width, float *dweight, float *dbias)
{
    cuda_kernels *cuda = of(kernels);
    float *partial = scratch(cuda, exec_cuda_column_scratch(rows, width) * sizeof(float));
    if (partial == NULL || rows == 0) return;
    note(cuda,
         exec_cuda_layer_norm_weight(cuda->part.stream, cuda->kind, output_gradient, input, mean,
                                     rstd, rows, width, partial, dweight, dbias),
         "layer_norm_weight");
}

static void cuda_gelu(exec_kernels *kernels, const void *input, void *output, size_t count)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_gelu(cuda->part.stream, cuda->kind, input, output, count), "gelu");
}

static void cuda_gelu_input(exec_kernels *kernels, const void *input, void *gradient, size_t count)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_gelu_input(cuda->part.stream, cuda->kind, input, gradient, count),
         "gelu_input");
}

static void cuda_swiglu(exec_kernels *kernels, const void *input, int rows, int width, void *output)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_swiglu(cuda->part.stream, cuda->kind, input, rows, width, output),
         "swiglu");
}

static void cuda_swiglu_input(exec_kernels *kernels, const void *input, const void *output_gradient,
                              int rows, int width, void *input_gradient)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_swiglu_input(cuda->part.stream, cuda->kind, input, output_gradient, rows, width,
                                input_gradient),
         "swiglu_input");
}

static void cuda_spread_heads(exec_kernels *kernels, const exec_heads *heads, const void *from,
                              int rows, void *qkv)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_spread_heads(cuda->part.stream, cuda->kind, heads, from, rows, qkv),
         "spread_heads");
}

static void cuda_spread_heads_input(exec_kernels *kernels, const exec_heads *heads,
                                    const void *qkv_gradient, int rows, void *gradient)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_spread_heads_input(cuda->part.stream, cuda->kind, heads, qkv_gradient, rows,
                                      gradient),
         "spread_heads_input");
}

/// The lists of a shape; false where they cannot be had, which is noted.
static bool find_lists(cuda_kernels *cuda, const exec_attention *shape, exec_cuda_attention *lists)
{
    if (cuda->failure.code != STATUS_OK) return false;
    return exec_cuda_blocks_find(&cuda->blocks, shape, cuda->part.stream, lists, &cuda->failure) ==
           STATUS_OK;
}

static void cuda_attention(exec_kernels *kernels, const exec_attention *shape, const void *qkv,
                           void *output, float *log_sum)
{
    cuda_kernels *cuda = of(kernels);
    exec_cuda_attention lists;
    if (!find_lists(cuda, shape, &lists)) return;
    note(cuda,
         exec_cuda_attention_forward(cuda->part.stream, cuda->kind, &lists, qkv, output, log_sum),
         "attention");
}

static void cuda_attention_input(exec_kernels *kernels, const exec_attention *shape,
                                 const void *qkv, const void *output, const float *log_sum,
                                 const void *output_gradient, void *qkv_gradient)
{
    cuda_kernels *cuda = of(kernels);
    exec_cuda_attention lists;
    if (!find_lists(cuda, shape, &lists)) return;
    const size_t pairs = (size_t)lists.row_count * (size_t)lists.head_count;
    float *row_dot = scratch(cuda, pairs * sizeof(float));
    if (row_dot == NULL) return;
    note(cuda,
         exec_cuda_attention_backward(cuda->part.stream, cuda->kind, &lists, qkv, output, log_sum,
                                      output_gradient, row_dot, qkv_gradient),
         "attention_input");
}

static void cuda_embed(exec_kernels *kernels, const int *token, const int *position,
                       const void *token_table, const void *position_table, int rows, int width,
                       void *output)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_embed(cuda->part.stream, cuda->kind, token, position, token_table,
                         position_table, rows, width, output),
         "embed");
}

static void cuda_embed_weight(exec_kernels *kernels, const void *output_gradient, const int *token,
                              const int *position, int rows, int width, int token_count,
                              int position_count, float *token_gradient, float *position_gradient)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_add_rows_by_index(cuda->part.stream, cuda->kind, output_gradient, token, rows,
                                     width, token_count, token_gradient),
         "embed_weight");
    if (position_gradient == NULL) return;
    note(cuda,
         exec_cuda_add_rows_by_index(cuda->part.stream, cuda->kind, output_gradient, position, rows,
                                     width, position_count, position_gradient),
         "embed_weight");
}

static void cuda_cross_entropy(exec_kernels *kernels, const void *logits, const int *target,
                               int rows, int classes, float scale, float *loss,
                               void *logits_gradient)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_cross_entropy(cuda->part.stream, cuda->kind, logits, target, rows, classes,
                                 scale, loss, logits_gradient),
         "cross_entropy");
}

// Chosen rows

static void cuda_gather_rows(exec_kernels *kernels, const void *from, const int *row, int rows,
                             int width, void *to)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_gather_rows(cuda->part.stream, cuda->kind, from, row, rows, width, to),
         "gather_rows");
}

static void cuda_scatter_rows(exec_kernels *kernels, const void *from, const int *row, int rows,
                              int width, void *to)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_scatter_rows(cuda->part.stream, cuda->kind, from, row, rows, width, to),
         "scatter_rows");
}

static void cuda_combine_rows(exec_kernels *kernels, const void *from, const int *first,
                              const int *source, const float *weight, int rows, int width, void *to)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_combine_rows(cuda->part.stream, cuda->kind, from, first, source, weight, rows,
                                width, to),
         "combine_rows");
}

static void cuda_scale_rows(exec_kernels *kernels, const void *from, const float *weight, int rows,
                            int width, void *to)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_scale_rows(cuda->part.stream, cuda->kind, from, weight, rows, width, to),
         "scale_rows");
}

static void cuda_row_dots(exec_kernels *kernels, const void *a, const int *row_a, const void *b,
                          const int *row_b, int rows, int width, float *dot)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_row_dots(cuda->part.stream, cuda->kind, a, row_a, b, row_b, rows, width, dot),
         "row_dots");
}

// The optimizer

static double cuda_sum_of_squares(exec_kernels *kernels, const float *values, size_t count)
{
    cuda_kernels *cuda = of(kernels);
    double partial[EXEC_CUDA_SQUARE_PARTS] = {0};
    double *device_partial = scratch(cuda, sizeof partial);
    if (device_partial == NULL) return NAN;
    note(cuda, exec_cuda_square_parts(cuda->part.stream, values, count, device_partial),
         "sum_of_squares");
    cuda_to_host(kernels, partial, device_partial, sizeof partial);
    double sum = 0.0;
    for (int part = 0; part < EXEC_CUDA_SQUARE_PARTS; part++) {
        sum += partial[part];
    }
    return sum;
}

static void cuda_adamw(exec_kernels *kernels, const exec_adamw *options, float *master,
                       float *moment1, float *moment2, const float *gradient, const uint8_t *keep,
                       void *weights, size_t count)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda,
         exec_cuda_adamw(cuda->part.stream, cuda->kind, options, master, moment1, moment2, gradient,
                         keep, weights, count),
         "adamw");
}

// Pruned matrices

static void cuda_mask(exec_kernels *kernels, float *values, const uint8_t *keep, size_t count)
{
    cuda_kernels *cuda = of(kernels);
    note(cuda, exec_cuda_mask(cuda->part.stream, values, keep, count), "mask");
}

// Time, and hand-over to other stages

static status mark(cuda_kernels *cuda, int number, error_message *err)
{
    while (number >= cuda->mark_count) {
        const size_t count = cuda->mark_count == 0 ? 64 : 2 * (size_t)cuda->mark_count;
        cudaEvent_t *larger = memory_resize(cuda->marks, count, sizeof *larger);
        cuda->marks = larger;
        for (; cuda->mark_count < (int)count; cuda->mark_count++) {
            TRY_CUDA(cudaEventCreate(&cuda->marks[cuda->mark_count]));
        }
    }
    TRY_CUDA(cudaEventRecord(cuda->marks[number], cuda->part.stream));
    return STATUS_OK;
}

static status cuda_mark(exec_kernels *kernels, int number)
{
    error_message failure = {.code = STATUS_OK};
    const status result = mark(of(kernels), number, &failure);
    if (result != STATUS_OK && of(kernels)->failure.code == STATUS_OK) {
        of(kernels)->failure = failure;
    }
    return result;
}

static int64_t cuda_mark_ns(exec_kernels *kernels, int number)
{
    cuda_kernels *cuda = of(kernels);
    float elapsed_ms = 0.0f;
    assert(number < cuda->mark_count);
    note(cuda, (int)cudaEventElapsedTime(&elapsed_ms, cuda->marks[0], cuda->marks[number]),
         "cudaEventElapsedTime");
    return llround((double)elapsed_ms * 1e6);
}

static status cuda_offer(exec_kernels *kernels, const void *memory, size_t bytes,
                         exec_handover *described, error_message *err)
{
    cuda_kernels *cuda = of(kernels);
    void *stream = cuda->part.stream;
    TRY(exec_cuda_give_begin(&cuda->handovers, stream, bytes, described, err));
    TRY_CUDA(exec_cuda_copy(stream, described->memory, memory, bytes));
    return exec_cuda_give_end(stream, described, err);
}

static status cuda_take(exec_kernels *kernels, const exec_handover *described, void *to,
                        error_message *err)
{
    void *stream = of(kernels)->part.stream;
    TRY(exec_cuda_take_begin(stream, described, err));
    TRY_CUDA(exec_cuda_copy(stream, to, described->memory, (size_t)described->byte_count));
    return exec_cuda_take_end(stream, described, err);
}

/// Without sparse products: pruned matrices stay dense here.
#define CUDA_TABLE(backend, bytes)                                                                 \
    {                                                                                              \
        .name = backend, .value_bytes = bytes, .has_host_memory = false,                           \
        .allocate = cuda_allocate, .release = cuda_release, .to_device = cuda_to_device,           \
        .to_host = cuda_to_host, .copy = cuda_copy, .clear = cuda_clear,                           \
        .to_values = cuda_to_values, .to_floats = cuda_to_floats, .finish = cuda_finish,           \
        .close = cuda_close, .matmul = cuda_matmul, .add = cuda_add,                               \
        .add_floats = cuda_add_floats, .add_bias = cuda_add_bias, .column_sums = cuda_column_sums, \
        .layer_norm = cuda_layer_norm, .layer_norm_input = cuda_layer_norm_input,                  \
        .layer_norm_weight = cuda_layer_norm_weight, .gelu = cuda_gelu, .swiglu = cuda_swiglu,     \
        .swiglu_input = cuda_swiglu_input, .spread_heads = cuda_spread_heads,                      \
        .spread_heads_input = cuda_spread_heads_input, .gelu_input = cuda_gelu_input,              \
        .attention = cuda_attention, .attention_input = cuda_attention_input, .embed = cuda_embed, \
        .embed_weight = cuda_embed_weight, .cross_entropy = cuda_cross_entropy,                    \
        .gather_rows = cuda_gather_rows, .scatter_rows = cuda_scatter_rows,                        \
        .combine_rows = cuda_combine_rows, .scale_rows = cuda_scale_rows,                          \
        .row_dots = cuda_row_dots, .sum_of_squares = cuda_sum_of_squares, .adamw = cuda_adamw,     \
        .mask = cuda_mask, .mark = cuda_mark, .mark_ns = cuda_mark_ns, .offer = cuda_offer,        \
        .take = cuda_take                                                                          \
    }

static const exec_kernel_table fp32_table = CUDA_TABLE("cuda fp32", 4);
static const exec_kernel_table bf16_table = CUDA_TABLE("cuda bf16", 2);

status exec_cuda_kernels_open(exec_cuda_kind kind, int place, int place_count,
                              exec_kernels **kernels, error_message *err)
{
    exec_cuda_part part;
    TRY(exec_cuda_part_open(place, place_count, &part, err));
    cuda_kernels *cuda = memory_array(1, sizeof *cuda);
    if (cuda == NULL) {
        exec_cuda_part_close(&part);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a backend");
    }
    cuda->base.table = kind == EXEC_CUDA_BF16 ? &bf16_table : &fp32_table;
    cuda->kind = kind;
    cuda->part = part;
    const status opened = exec_cuda_products_open(&cuda->part, &cuda->products, err);
    if (opened != STATUS_OK) {
        cuda_close(&cuda->base);
        return opened;
    }
    *kernels = &cuda->base;
    return STATUS_OK;
}
