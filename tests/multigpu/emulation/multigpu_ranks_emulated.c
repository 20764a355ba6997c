#include "tests/multigpu/multigpu_ranks.h"

#include "exec/cuda/kernels_cuda_open.h"
#include "exec/transport/transport_nccl.h"

status multigpu_run(exec_rank_body *body, error_message *err)
{
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = 4;
    return exec_nccl_run_over("local", &options, body, NULL, err);
}

status multigpu_open(int rank, int rank_count, exec_kernels **kernels, error_message *err)
{
    return exec_cuda_kernels_open(EXEC_CUDA_BF16, rank, rank_count, kernels, err);
}
