/// Starts the ranks of the tests of this folder: by the nccl transport, under mpirun or as GPUS
/// threads, or over emulated calls (emulation/multigpu_ranks_emulated.c).
#pragma once

#include "exec/kernels/kernels.h"
#include "exec/transport/transport.h"

/// Runs body on every rank; ends the program as skipped, saying what is missing, where it cannot.
status multigpu_run(exec_rank_body *body, error_message *err);

/// The kernels of a rank.
status multigpu_open(int rank, int rank_count, exec_kernels **kernels, error_message *err);
