/// What a launcher (mpirun, torchrun, srun) says in the environment of the processes that it
/// starts.
#pragma once

#include "base/status.h"

/// How many processes were started together: by Open MPI's mpirun, by MPICH's and others' (PMI), by
/// torchrun or who sets its variables, by srun; the first of these that says so. A batch script of
/// Slurm is a step of one task.
///
/// @param variable out: the name of the variable that says so; NULL where there is none. May be
///                 NULL
/// @return >= 1
int launcher_process_count(const char **variable);

/// Which of them this process is, from 0; 0 where there is only one.
int launcher_rank(void);

/// How many of them are on this machine, as far as the launcher says; else 1.
int launcher_here_count(void);

/// Which of those on this machine this process is, from 0; fallback where nothing says so.
int launcher_local_rank(int fallback);

enum { LAUNCHER_HOST_BYTES = 256 };

/// Where the process with rank 0 can be reached by the others: MASTER_ADDR and MASTER_PORT, as
/// torchrun sets them; under srun without them the first host of the step, and a port in [20000,
/// 30000) that the job's number gives.
///
/// @return STATUS_INVALID where neither is there, or the port is outside [1, 65535]
status launcher_meeting_point(char host[LAUNCHER_HOST_BYTES], int *port, error_message *err);
