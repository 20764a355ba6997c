#include "tests/multigpu/multigpu_ranks.h"

#include "exec/cuda/cuda_backend.h"
#include "exec/transport/transport_nccl.h"
#include "tests/gpu/emulation/emulation.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
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

/// What the emulation refuses, as NCCL does: a call of a communicator that is still in progress.
static status calls_in_progress_are_refused(error_message *err)
{
    ncclUniqueId id;
    ncclComm_t alone = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t state = ncclInProgress;
    config.blocking = 0;
    ncclGetUniqueId(&id);
    ncclCommInitRankConfig(&alone, 1, id, 0, &config);
    const ncclResult_t early = ncclSend(NULL, 0, ncclChar, 0, alone, NULL);
    while (state == ncclInProgress) {
        ncclCommGetAsyncError(alone, &state);
    }
    ncclCommDestroy(alone);
    if (early == ncclInvalidArgument && state == ncclSuccess) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "a communicator in progress takes a call");
}

/// A failure of NCCL is told in its own words.
static status nccl_is_quoted(const exec_transport_options *options, exec_rank_body *body,
                             error_message *err)
{
    const gpu_emulation repeated = {.seed = 1, .device_count = GPUS, .repeats_gpu = true};
    gpu_emulation_begin(&repeated);
    const status result = exec_nccl_run_over("local", options, on_own_gpu, &body, err);
    if (result == STATUS_BACKEND && strstr(err->message, "Duplicate GPU") != NULL) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "two ranks on one GPU are not told");
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
    TRY(calls_in_progress_are_refused(err));
    TRY(nccl_is_quoted(&options, body, err));
    gpu_emulation_begin(&gpus);
    return exec_nccl_run_over("local", &options, on_own_gpu, &body, err);
}

status multigpu_open(int rank, int rank_count, exec_kernels **kernels, error_message *err)
{
    return exec_cuda_kernels_open(EXEC_CUDA_BF16, rank, rank_count, kernels, err);
}
