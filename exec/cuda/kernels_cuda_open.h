/// The backends `cuda fp32` and `cuda bf16`: inside the module (and its emulation in tests/gpu),
/// and what the module hands over.
#pragma once

#include "exec/kernels/kernels.h"

/// As exec_kernels_cuda_open.
status exec_cuda_kernels_open(exec_cuda_kind kind, int place, int place_count,
                              exec_kernels **kernels, error_message *err);

typedef struct exec_cuda_module {
    status (*open)(exec_cuda_kind kind, int place, int place_count, exec_kernels **kernels,
                   error_message *err); // exec_cuda_kernels_open
} exec_cuda_module;
