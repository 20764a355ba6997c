/// What the module dynmo_cuda.so hands over.
#pragma once

#include "exec/kernels/kernels.h"

typedef struct exec_cuda_module {
    /// exec_kernels_cuda_open, with CUDA.
    status (*open)(exec_cuda_kind kind, int place, int place_count, exec_kernels **kernels,
                   error_message *err);
} exec_cuda_module;
