/// Opens the CUDA backends for the programs of this folder: those of the module, or the emulated
/// ones (emulation/gpu_backend_emulated.c).
#pragma once

#include "exec/kernels/kernels.h"

/// Whether sizes stay small: kernels run on the host, or the program was given --smoke.
extern bool gpu_is_small;

/// As exec_kernels_cuda_open.
status gpu_open(exec_cuda_kind kind, int place, int place_count, exec_kernels **kernels,
                error_message *err);

/// Reads the command line. Ends the program as skipped where there is no GPU, saying what is
/// missing.
void gpu_begin(int argc, char **argv);
