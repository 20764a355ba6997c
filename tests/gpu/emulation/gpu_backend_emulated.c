#include "tests/gpu/gpu_backend.h"

#include "exec/cuda/cuda_backend.h"

bool gpu_is_small = true;

status gpu_open(exec_cuda_kind kind, int place, int place_count, exec_kernels **kernels,
                error_message *err)
{
    return exec_cuda_kernels_open(kind, place, place_count, kernels, err);
}

void gpu_begin(int argc, char **argv)
{
    (void)argc;
    (void)argv;
}
