/// The kernels of the backends `cuda fp32` and `cuda bf16`, as C calls them: one launcher each.
///
/// Every launcher enqueues on a stream (a cudaStream_t) and returns a cudaError_t as a number, 0
/// for success; nothing waits. Pointers are device memory. Arrays called values are fp32, or bf16
/// where `kind` says so; everything else is as in kernels.h, and so is the meaning of each
/// operation. The same input gives the same bits on any part of a GPU: which thread adds what in
/// which order depends on the shapes alone.
#pragma once

#include "exec/kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Elements: kernels_cuda_elements.cu

int exec_cuda_copy(void *stream, void *to, const void *from, size_t bytes);
int exec_cuda_to_bf16(void *stream, const float *from, void *values, size_t count);
int exec_cuda_from_bf16(void *stream, const void *values, float *to, size_t count);
int exec_cuda_add(void *stream, exec_cuda_kind kind, void *to, const void *from, size_t count);
int exec_cuda_gelu(void *stream, exec_cuda_kind kind, const void *input, void *output,
                   size_t count);
int exec_cuda_gelu_input(void *stream, exec_cuda_kind kind, const void *input, void *gradient,
                         size_t count);
int exec_cuda_adamw(void *stream, exec_cuda_kind kind, const exec_adamw *options, float *master,
                    float *moment1, float *moment2, const float *gradient, const uint8_t *keep,
                    void *weights, size_t count);

/// Sums of squares of EXEC_CUDA_SQUARE_PARTS interleaved parts; their sum in ascending order is the
/// result.
/// @param partial [EXEC_CUDA_SQUARE_PARTS] out
enum { EXEC_CUDA_SQUARE_PARTS = 256 };
int exec_cuda_square_parts(void *stream, const float *values, size_t count, double *partial);

// Rows: kernels_cuda_rows.cu

int exec_cuda_add_bias(void *stream, exec_cuda_kind kind, void *values, const void *bias, int rows,
                       int columns);
int exec_cuda_layer_norm(void *stream, exec_cuda_kind kind, const void *input, const void *weight,
                         const void *bias, int rows, int width, void *output, float *mean,
                         float *rstd);
int exec_cuda_layer_norm_input(void *stream, exec_cuda_kind kind, const void *output_gradient,
                               const void *input, const void *weight, const float *mean,
                               const float *rstd, int rows, int width, void *input_gradient);
int exec_cuda_cross_entropy(void *stream, exec_cuda_kind kind, const void *logits,
                            const int *target, int rows, int classes, float scale, float *loss,
                            void *logits_gradient);
int exec_cuda_embed(void *stream, exec_cuda_kind kind, const int *token, const int *position,
                    const void *token_table, const void *position_table, int rows, int width,
                    void *output);
int exec_cuda_gather_rows(void *stream, exec_cuda_kind kind, const void *from, const int *row,
                          int rows, int width, void *to);
int exec_cuda_scatter_rows(void *stream, exec_cuda_kind kind, const void *from, const int *row,
                           int rows, int width, void *to);
int exec_cuda_combine_rows(void *stream, exec_cuda_kind kind, const void *from, const int *first,
                           const int *source, const float *weight, int rows, int width, void *to);
int exec_cuda_scale_rows(void *stream, exec_cuda_kind kind, const void *from, const float *weight,
                         int rows, int width, void *to);
int exec_cuda_row_dots(void *stream, exec_cuda_kind kind, const void *a, const int *row_a,
                       const void *b, const int *row_b, int rows, int width, float *dot);

// Heads and gated units: kernels_cuda_heads.cu

int exec_cuda_swiglu(void *stream, exec_cuda_kind kind, const void *input, int rows, int width,
                     void *output);
int exec_cuda_swiglu_input(void *stream, exec_cuda_kind kind, const void *input,
                           const void *output_gradient, int rows, int width, void *input_gradient);
int exec_cuda_spread_heads(void *stream, exec_cuda_kind kind, const exec_heads *heads,
                           const void *from, int rows, void *qkv);
int exec_cuda_spread_heads_input(void *stream, exec_cuda_kind kind, const exec_heads *heads,
                                 const void *qkv_gradient, int rows, void *gradient);

// Sums over rows: kernels_cuda_columns.cu

/// Floats of scratch that the two sums over rows below need.
size_t exec_cuda_column_scratch(int rows, int columns);
int exec_cuda_column_sums(void *stream, exec_cuda_kind kind, const void *values, int rows,
                          int columns, float *scratch, float *sum);
int exec_cuda_layer_norm_weight(void *stream, exec_cuda_kind kind, const void *output_gradient,
                                const void *input, const float *mean, const float *rstd, int rows,
                                int width, float *scratch, float *dweight, float *dbias);
/// to[k] += sum over r with index[r] = k, ascending, of from[r]; k in [0, count).
int exec_cuda_add_rows_by_index(void *stream, exec_cuda_kind kind, const void *from,
                                const int *index, int rows, int width, int count, float *to);

// Pruned parameters: kernels_cuda_elements.cu

int exec_cuda_mask(void *stream, float *values, const uint8_t *keep, size_t count);

// Attention: kernels_cuda_attention.cu (any shape in the limits), kernels_cuda_attention_mma.cu
// (bf16 on the matrix units: blocks of 64 rows, heads of 32, 64 or 128)

/// A block of rows, of queries and of keys.
typedef struct exec_cuda_block {
    int first_row;
    int row_count;
    int first_key_block;   // its key blocks are [first_key_block, first_query_block of the arrays
    int key_block_count;   // below), ascending
    int first_query_block; // the query blocks that list it as a key block, ascending
    int query_block_count;
} exec_cuda_block;

/// Attention as kernels see it: the lists in both directions, in device memory.
typedef struct exec_cuda_attention {
    int head_count;
    int head_width;
    int block_rows; // at most EXEC_CUDA_BLOCK_ROWS
    int block_count;
    int row_count;
    const exec_cuda_block *block; // [block_count]
    const int *key_block;         // key blocks of all query blocks
    const int *query_block;       // query blocks of all key blocks
} exec_cuda_attention;

/// block_rows * head_width is at most EXEC_CUDA_TILE_VALUES.
enum { EXEC_CUDA_BLOCK_ROWS = 64, EXEC_CUDA_TILE_VALUES = 64 * 128 };

int exec_cuda_attention_forward(void *stream, exec_cuda_kind kind, const exec_cuda_attention *shape,
                                const void *qkv, void *output, float *log_sum);
/// @param row_dot [row_count][head_count] scratch: sum of output * output_gradient of each row
int exec_cuda_attention_backward(void *stream, exec_cuda_kind kind,
                                 const exec_cuda_attention *shape, const void *qkv,
                                 const void *output, const float *log_sum,
                                 const void *output_gradient, float *row_dot, void *qkv_gradient);

/// Whether the kernels of the matrix units take this shape (of bf16 values).
bool exec_cuda_attention_mma_takes(const exec_cuda_attention *shape);
int exec_cuda_attention_mma_forward(void *stream, const exec_cuda_attention *shape, const void *qkv,
                                    void *output, float *log_sum);
/// @param row_dot [row_count][head_count] as above, already filled
int exec_cuda_attention_mma_backward(void *stream, const exec_cuda_attention *shape,
                                     const void *qkv, const float *log_sum,
                                     const void *output_gradient, const float *row_dot,
                                     void *qkv_gradient);

#ifdef __cplusplus
}
#endif
