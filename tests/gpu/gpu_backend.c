#include "tests/gpu/gpu_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool gpu_is_small;

status gpu_open(exec_cuda_kind kind, int place, int place_count, exec_kernels **kernels,
                error_message *err)
{
    return exec_kernels_cuda_open(kind, place, place_count, kernels, err);
}

void gpu_begin(int argc, char **argv)
{
    gpu_is_small = argc > 1 && strcmp(argv[1], "--smoke") == 0;
    exec_kernels *kernels = NULL;
    error_message err = {.code = STATUS_OK};
    if (gpu_open(EXEC_CUDA_FP32, 0, 1, &kernels, &err) == STATUS_OK) {
        kernels->table->close(kernels);
        return;
    }
    printf("skipped: %s\n", err.message);
    exit(err.code == STATUS_UNSUPPORTED ? 77 : 1);
}
