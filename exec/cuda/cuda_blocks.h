/// The lists of attention on the device: who attends to whom, block by block, in both directions.
#pragma once

#include "base/status.h"
#include "exec/cuda/kernels_cuda.h"
#include "exec/kernels/kernels.h"

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
