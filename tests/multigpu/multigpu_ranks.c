#include "tests/multigpu/multigpu_ranks.h"

#include "base/launcher.h"

#include <stdio.h>
#include <stdlib.h>

status multigpu_run(exec_rank_body *body, error_message *err)
{
    exec_transport_options options = exec_transport_options_default();
    const char *gpus = getenv("GPUS");
    const int process_count = launcher_process_count(NULL);
    options.rank_count = process_count > 1 || gpus == NULL ? process_count : atoi(gpus);
    if (options.rank_count < 2) {
        printf("skipped: wants GPUS=N of at least 2, or mpirun on as many\n");
        exit(77);
    }
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
