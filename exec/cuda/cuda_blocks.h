/// The lists of attention on the device: who attends to whom, block by block, in both directions.
#pragma once

#include "base/status.h"
#include "exec/cuda/kernels_cuda.h"
#include "exec/kernels/kernels.h"

/// The dense lists that were uploaded last, and what was made of lists chosen on the device.
/// Zero-initialise; release with exec_cuda_blocks_reset. Forward and backward, and layer after
/// layer, mostly ask for the same ones.
typedef struct exec_cuda_blocks {
    int *host;   // [word_capacity] a copy of what lies on the device
    int *device; // [word_capacity]
    size_t word_capacity;
    int *asked; // [asked_count] the shape that the lists are of
    size_t asked_count;
    int *device_chosen; // [chosen_capacity]
    size_t chosen_capacity;
    exec_cuda_lists lists;
} exec_cuda_blocks;

/// Makes the lists of a shape and uploads them, unless they are there already; where key blocks are
/// chosen, enqueues what reads these the other way.
///
/// @param kernels their backend: the lists are there for what it is told from now on
/// @param lists   out: device pointers, valid until the next call
/// @return STATUS_UNSUPPORTED for blocks or heads that no kernel takes, naming both limits;
///         STATUS_NO_MEMORY
status exec_cuda_blocks_find(exec_cuda_blocks *blocks, const exec_attention *shape,
                             exec_kernels *kernels, exec_cuda_lists *lists, error_message *err);

void exec_cuda_blocks_reset(exec_cuda_blocks *blocks);
