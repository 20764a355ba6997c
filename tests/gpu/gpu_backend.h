/// Opens the CUDA backends for the tests of this folder: those of the module, or the emulated ones
/// (emulation/gpu_backend_emulated.c).
#pragma once

#include "exec/kernels/kernels.h"

/// Whether kernels run on the host: sizes then stay small, and times mean nothing.
extern const bool gpu_is_emulated;

/// As exec_kernels_cuda_open.
status gpu_open(exec_cuda_kind kind, int place, int place_count, exec_kernels **kernels,
                error_message *err);

/// Ends the program as skipped where there is no GPU, saying what is missing.
void gpu_skip_without(void);
