#include "exec/cuda/cuda_check.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

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
