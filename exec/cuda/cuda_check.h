/// Failures of CUDA calls as statuses, for sources that include CUDA's headers.
#pragma once

#include "base/status.h"

/// The status of a failed call of the runtime API, a cudaError_t: STATUS_NO_MEMORY where memory ran
/// out, STATUS_UNSUPPORTED where there is no device or driver, else STATUS_BACKEND.
status exec_cuda_failure(int error, const char *call, error_message *err);

/// The same of the driver API, a CUresult.
status exec_cuda_driver_failure(int result, const char *call, error_message *err);

/// Asks the driver for what contexts need that are made from here on, unless the environment says
/// otherwise: before anything makes one, and before other threads read the environment.
void exec_cuda_ask_driver(void);

/// Returns from the function if the call of the runtime API fails.
#define TRY_CUDA(call)                                                                             \
    do {                                                                                           \
        const int try_error = (int)(call);                                                         \
        if (try_error != 0) return exec_cuda_failure(try_error, #call, err);                       \
    } while (0)

/// The same of the driver API.
#define TRY_DRIVER(call)                                                                           \
    do {                                                                                           \
        const int try_result = (int)(call);                                                        \
        if (try_result != 0) return exec_cuda_driver_failure(try_result, #call, err);              \
    } while (0)
