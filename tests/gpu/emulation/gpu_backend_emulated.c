#include "tests/gpu/gpu_backend.h"

#include "exec/cuda/kernels_cuda_open.h"

const bool gpu_is_emulated = true;

status gpu_open(exec_cuda_kind kind, int place, int place_count, exec_kernels **kernels,
                error_message *err)
{
    return exec_cuda_kernels_open(kind, place, place_count, kernels, err);
}

void gpu_skip_without(void)
{
}
