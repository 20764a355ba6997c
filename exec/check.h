/// Turns the failures of libraries into the project's. Each macro is for sources that include that
/// library's header.
#pragma once

#include "base/status.h"

/// "MPI_Isend(...) failed in exec/transport/transport_mpi.c:120: text".
///
/// @param call what was called, as written
/// @return STATUS_BACKEND
#define CHECK_FAILED(err, call, text)                                                              \
    error_set(err, STATUS_BACKEND, "%.120s failed in %s:%d: %.200s", call, __FILE__, __LINE__, text)

/// Returns from the calling function, with MPI's words in its `err`, unless the call succeeds.
#define TRY_MPI(call)                                                                              \
    do {                                                                                           \
        const int try_code = (call);                                                               \
        if (try_code != MPI_SUCCESS) {                                                             \
            char try_text[MPI_MAX_ERROR_STRING] = "";                                              \
            int try_length = 0;                                                                    \
            MPI_Error_string(try_code, try_text, &try_length);                                     \
            return CHECK_FAILED(err, #call, try_text);                                             \
        }                                                                                          \
    } while (0)
