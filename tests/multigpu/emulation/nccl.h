/// The part of NCCL that the transport uses, between threads of one process: see nccl.cpp.
#pragma once

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ncclResult_t {
    ncclSuccess = 0,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;
typedef enum ncclDataType_t { ncclChar = 0 } ncclDataType_t;

typedef struct ncclComm *ncclComm_t;

typedef struct ncclUniqueId {
    char internal[128];
} ncclUniqueId;

typedef struct ncclConfig_t {
    int blocking;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
    {                                                                                              \
        1                                                                                          \
    }
#define NCCL_SPLIT_NOCOLOR (-1)

ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *communicator, int rank_count, ncclUniqueId id,
                                    int rank, ncclConfig_t *config);
ncclResult_t ncclCommSplit(ncclComm_t communicator, int colour, int key, ncclComm_t *split,
                           ncclConfig_t *config);
ncclResult_t ncclCommDestroy(ncclComm_t communicator);
ncclResult_t ncclCommAbort(ncclComm_t communicator);
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t *state);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *memory, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream);
ncclResult_t ncclRecv(void *memory, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream);
const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t communicator);

#ifdef __cplusplus
}
#endif
