#include "tests/multigpu/multigpu_ranks.h"

#include "exec/cuda/kernels_cuda_open.h"
#include "exec/transport/transport_nccl.h"
#include "tests/gpu/emulation/emulation.h"

#include <cuda_runtime_api.h>
#include <string.h>

enum { GPUS = 4 };

static status on_own_gpu(exec_endpoint *endpoint, void *body, error_message *err)
{
    exec_rank_body *const *asked = body;
    int device = -1;
    if (cudaGetDevice(&device) != cudaSuccess || device != endpoint->rank) {
        return error_set(err, STATUS_BACKEND, "rank %d is on GPU %d", endpoint->rank, device);
    }
    return (*asked)(endpoint, NULL, err);
}

status multigpu_run(exec_rank_body *body, error_message *err)
{
    const gpu_emulation gpus = {
        .seed = 1, .device_count = GPUS, .eagerness = 50, .eager_bytes = 4096};
    exec_transport_options options = exec_transport_options_default();
    gpu_emulation_begin(&gpus);
    options.rank_count = GPUS + 1;
    if (exec_nccl_run_over("local", &options, on_own_gpu, &body, err) != STATUS_UNSUPPORTED ||
        strstr(err->message, "5 ranks in one process need as many GPUs, and 4 are visible") ==
            NULL) {
        return error_set(err, STATUS_BACKEND, "more ranks than GPUs are not refused");
    }
    options.rank_count = GPUS;
    return exec_nccl_run_over("local", &options, on_own_gpu, &body, err);
}

status multigpu_open(int rank, int rank_count, exec_kernels **kernels, error_message *err)
{
    return exec_cuda_kernels_open(EXEC_CUDA_BF16, rank, rank_count, kernels, err);
}
