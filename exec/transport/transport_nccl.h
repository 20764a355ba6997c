/// The transport of ranks that have a GPU each, in the module dynmo_nccl.so. It stands on another
/// transport, which carries everything but device memory. What a handover (kernels.h) describes
/// goes from GPU to GPU by NCCL, on communicators that are split from the world's at each
/// regrouping (lane.h); the receiver gets a handover of its own.
///
/// A rank that waits on its GPU does not hear of failures. A thread beside it aborts its
/// communicators when another rank has failed, or when it has been there for longer than the
/// watchdog gives it; the rank's next call then says what it was. No function of NCCL is used that
/// came after 2.18 (ncclCommSplit).
#pragma once

#include "exec/transport/transport.h"

/// As exec_transport_run with "nccl".
///
/// @param inner name of the transport below: "mpi", "tcp", or "local": a thread for each GPU of one
///              process; NULL: `local` in a single process; of several `tcp` where MASTER_ADDR is
///              set or this machine has no MPI, else `mpi`
/// @return as well STATUS_UNSUPPORTED over "local" where there are fewer GPUs than ranks
status exec_nccl_run_over(const char *inner, const exec_transport_options *options,
                          exec_rank_body *body, void *context, error_message *err);
