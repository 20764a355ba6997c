/// What the host's side of the CUDA backends and their kernels share.
///
/// Every operation of the table (kernels.h) is
/// enqueued on the backend's stream; nothing waits. The same input gives the same bits on any part
/// of a GPU: which thread adds what in which order depends on the shapes alone.
#pragma once

#include "exec/kernels/kernels.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Where a rank's operations go: the first part of a CUDA backend.
typedef struct exec_cuda_queue {
    exec_kernels base; // first
    exec_cuda_kind kind;
    void *stream;          // cudaStream_t
    const int *extent;     // of limit_rows; NULL: operations are over all rows
    int most;              // that operations are given then
    error_message failure; // of the first operation that could not be enqueued, until finish
} exec_cuda_queue;

/// Notes a call's cudaError_t where it is not 0.
void exec_cuda_note(exec_kernels *kernels, int error, const char *call);

/// Keeps memory until the backend closes. Freeing it would wait for the whole GPU, also for
/// messages that only later operations of other ranks bring on.
void exec_cuda_retire(exec_kernels *kernels, void *memory);

/// Memory for one operation, until the next one asks; NULL, noted, where there is none.
void *exec_cuda_scratch(exec_kernels *kernels, size_t bytes);

/// Fills the table with the operations that are kernels, each enqueued by its function.
void exec_cuda_fill_kernels(exec_kernel_table *table);

#define EXEC_CUDA_OPERATIONS(_) EXEC_KERNEL_OPERATIONS(_) _(copy) _(to_values)
#define EXEC_CUDA_DECLARE(name) EXEC_KERNEL_DECLARE(cuda, name)
EXEC_CUDA_OPERATIONS(EXEC_CUDA_DECLARE)

/// Sums of squares of interleaved parts; their sum in ascending order is the result.
/// @param partial [EXEC_CUDA_SQUARE_PARTS_MAX] out
/// @return how many parts; it depends on count alone
enum { EXEC_CUDA_SQUARE_PARTS_MAX = 256 };
int exec_cuda_square_parts(exec_kernels *kernels, const float *values, size_t count,
                           double *partial);

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
typedef struct exec_cuda_lists {
    int head_count;
    int head_width;
    int block_rows; // at most EXEC_CUDA_BLOCK_ROWS
    int block_count;
    int row_count;
    const exec_cuda_block *block; // [block_count]
    const int *key_block;         // key blocks of all query blocks
    const int *query_block;       // query blocks of all key blocks
    const int *first_key;         // of exec_attention
} exec_cuda_lists;

/// block_rows * head_width is at most EXEC_CUDA_TILE_VALUES.
enum { EXEC_CUDA_BLOCK_ROWS = 64, EXEC_CUDA_TILE_VALUES = 64 * 128 };

/// The lists of a shape; false where they cannot be had, which is noted.
bool exec_cuda_find_lists(exec_kernels *kernels, const exec_attention *shape,
                          exec_cuda_lists *lists);

/// Makes blocks and query blocks of lists that lie on the device (kernels_cuda_blocks.cu).
///
/// @param dense       lists of the same rows and blocks
/// @param stride      places in query_block for each key block
/// @param block       [block_count] out
/// @param query_block [block_count][stride] out
void exec_cuda_list_chosen(exec_kernels *kernels, const exec_cuda_lists *dense,
                           const exec_attention *shape, int stride, exec_cuda_block *block,
                           int *query_block);

/// Makes blocks of rows that the device alone knows (shape->live_first_row): of those that are
/// there lists are as dense, the others have no rows, and nothing is computed of them.
///
/// @param dense lists of as many rows as there may be
/// @param block [block_count] out
void exec_cuda_list_live(exec_kernels *kernels, const exec_cuda_lists *dense,
                         const exec_attention *shape, exec_cuda_block *block);

/// Whether the kernels of the matrix units take this shape (of bf16 values).
bool exec_cuda_attention_mma_takes(const exec_cuda_lists *shape);
void exec_cuda_attention_mma_forward(exec_kernels *kernels, const exec_cuda_lists *shape,
                                     const void *qkv, void *output, float *log_sum);
/// @param row_dot [row_count][head_count]: the sum of output * output_gradient of each row
void exec_cuda_attention_mma_backward(exec_kernels *kernels, const exec_cuda_lists *shape,
                                      const void *qkv, const float *log_sum,
                                      const void *output_gradient, const float *row_dot,
                                      void *qkv_gradient);

#ifdef __cplusplus
}
#endif
