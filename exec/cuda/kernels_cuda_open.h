/// The backends `cuda fp32` and `cuda bf16` inside the module, which hands this function over, and
/// its emulation in tests/gpu.
#pragma once

#include "exec/kernels/kernels.h"

/// As exec_kernels_cuda_open.
status exec_cuda_kernels_open(exec_cuda_kind kind, int place, int place_count,
                              exec_kernels **kernels, error_message *err);
