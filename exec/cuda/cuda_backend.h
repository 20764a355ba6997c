/// The backends `cuda fp32` and `cuda bf16` inside the module, and what one is made of beside its
/// kernels (kernels_cuda.h): a part of a GPU, products of matrices, lists of attention.
#pragma once

#include "base/status.h"
#include "exec/cuda/kernels_cuda.h"
#include "exec/kernels/kernels.h"

/// As exec_kernels_cuda_open: what the module hands over.
status exec_cuda_kernels_open(exec_cuda_kind kind, int place, int place_count,
                              exec_kernels **kernels, error_message *err);

// A part of a GPU that one stage computes on: some of the multiprocessors, and a stream on them.
//
// One stage has the whole GPU. Several stages of one process each have a green context (driver
// API; CUDA 12.4 and later) with an equal number of multiprocessors, all groups from one split,
// because the groups of two splits overlap. The primary context stays current: streams, events,
// memory and handles are of that one context, so stages can share them; only where kernels run is
// the green context's, through its stream.

enum { EXEC_CUDA_PARTS_MAX = 16 };

typedef struct exec_cuda_part {
    int place;
    int place_count;
    int multiprocessor_count; // of this part
    int device_multiprocessor_count;
    void *stream;        // cudaStream_t
    void *beside;        // a second one; NULL where the part is not the whole
    void *green_context; // CUgreenCtx, NULL where the part is the whole
} exec_cuda_part;

/// Takes the part of a place on the GPU whose context is current on this thread (device 0 if none
/// is), and makes that context current.
///
/// @return STATUS_UNSUPPORTED without a GPU or a driver; STATUS_INVALID if place is not in
///         [0, place_count), or the process has split the GPU into another number of parts and uses
///         them still; STATUS_INFEASIBLE if the GPU cannot be split so, naming both numbers
status exec_cuda_part_open(int place, int place_count, exec_cuda_part *part, error_message *err);
void exec_cuda_part_close(exec_cuda_part *part);

// Products of matrices by cuBLASLt, with algorithms that are chosen once and for all stages.
//
// cuBLASLt promises equal bits only for the same algorithm, so the choice must not depend on the
// part of the GPU that asks. One table of the process holds the algorithm of every shape and pass,
// chosen for the whole GPU, and none that splits a sum. Rows and sums over rows are rounded up to
// 64 for the choice, because mechanisms change them all the time.

/// A stage's handle and workspace.
typedef struct exec_cuda_products exec_cuda_products;

/// @param part borrowed until exec_cuda_products_close
status exec_cuda_products_open(const exec_cuda_part *part, exec_cuda_products **products,
                               error_message *err);
void exec_cuda_products_close(exec_cuda_products *products);

/// Enqueues a product; matrices are device memory, as exec_kernel_table.matmul has them.
/// @return STATUS_BACKEND naming shape and failure; STATUS_UNSUPPORTED if no algorithm fits
status exec_cuda_products_multiply(exec_cuda_products *products, exec_cuda_kind kind,
                                   const exec_matmul *shape, const void *a, const void *b, void *c,
                                   error_message *err);

// The lists of attention on the device: who attends to whom, block by block, in both directions.

/// Dense lists of one shape.
typedef struct exec_cuda_dense_lists {
    int *asked;         // [asked_count] the shape that they are of
    size_t asked_count; // 0: there are none
    int *device;        // [word_capacity]
    size_t word_capacity;
    exec_cuda_lists lists;
} exec_cuda_dense_lists;

enum { EXEC_CUDA_SHAPES_KEPT = 4 };

/// The dense lists that were uploaded last, since forward and backward, and layer after layer,
/// mostly ask for the same ones; and what was made of lists chosen on the device. Zero-initialise;
/// release with exec_cuda_blocks_reset.
typedef struct exec_cuda_blocks {
    exec_cuda_dense_lists kept[EXEC_CUDA_SHAPES_KEPT];
    int next;           // of them that is replaced
    int *device_chosen; // [chosen_capacity]
    size_t chosen_capacity;
} exec_cuda_blocks;

/// Makes the lists of a shape and uploads them, unless they are there already; where key blocks are
/// chosen, enqueues what reads these the other way; where the device alone knows the rows, what
/// finds the blocks of those.
///
/// @param kernels their backend: the lists are there for what it is told from now on
/// @param lists   out: device pointers; those of chosen lists and of live rows are valid until the
/// next call
/// @return STATUS_UNSUPPORTED for blocks or heads that no kernel takes, naming both limits;
///         STATUS_NO_MEMORY
status exec_cuda_blocks_find(exec_cuda_blocks *blocks, const exec_attention *shape,
                             exec_kernels *kernels, exec_cuda_lists *lists, error_message *err);

void exec_cuda_blocks_reset(exec_cuda_blocks *blocks);
