#include "tests/multigpu/multigpu_ranks.h"

#include <stdio.h>
#include <stdlib.h>

status multigpu_run(exec_rank_body *body, error_message *err)
{
    exec_transport_options options = exec_transport_options_default();
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    if (size == NULL || atoi(size) < 2) {
        printf("skipped: to be started by mpirun on at least 2 GPUs\n");
        exit(77);
    }
    options.rank_count = atoi(size);
    const status result = exec_transport_run("nccl", &options, body, NULL, err);
    if (result == STATUS_UNSUPPORTED) {
        printf("skipped: %s\n", err->message);
        exit(77);
    }
    return result;
}

status multigpu_open(int rank, int rank_count, exec_kernels **kernels, error_message *err)
{
    (void)rank;
    (void)rank_count;
    return exec_kernels_cuda_open(EXEC_CUDA_BF16, 0, 1, kernels, err);
}
