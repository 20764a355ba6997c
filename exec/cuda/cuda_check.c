#include "exec/cuda/cuda_check.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>

status exec_cuda_failure(int error, const char *call, error_message *err)
{
    const cudaError_t failed = (cudaError_t)error;
    status code = STATUS_BACKEND;
    if (failed == cudaErrorMemoryAllocation) code = STATUS_NO_MEMORY;
    if (failed == cudaErrorNoDevice || failed == cudaErrorInsufficientDriver) {
        code = STATUS_UNSUPPORTED;
    }
    return error_set(err, code, "%.120s failed: %s (%s)", call, cudaGetErrorString(failed),
                     cudaGetErrorName(failed));
}

status exec_cuda_driver_failure(int result, const char *call, error_message *err)
{
    const char *name = "unknown error";
    cuGetErrorName((CUresult)result, &name);
    return error_set(err, result == CUDA_ERROR_NO_DEVICE ? STATUS_UNSUPPORTED : STATUS_BACKEND,
                     "%.120s failed: %s", call, name);
}

void exec_cuda_ask_driver(void)
{
    // Hands of the host to the GPU: more than the default of 8, or streams share one and wait for
    // each other, those of several stages or of NCCL's lanes.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    // A kernel that is loaded at its first launch may wait for those that run.
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}
