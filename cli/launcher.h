/// What a launcher (mpirun, srun) says in the environment of the processes that it starts, for the
/// commands that run on several.
#pragma once

#include "base/status.h"

/// How many processes were started together: by Open MPI's mpirun, by MPICH's and others' (PMI), by
/// srun. A batch script of Slurm is a step of one task.
///
/// @param variable out: the name of the variable that says so; NULL where there is none. May be
///                 NULL
/// @return >= 1
int cli_launched_count(const char **variable);

/// Which of them this process is, from 0.
int cli_launched_rank(void);

/// How many of them are on this machine, as far as the launcher says; else 1.
int cli_launched_here_count(void);

/// What a launcher has started several times runs as one only over MPI.
///
/// @return STATUS_INVALID naming the variable, for transport `local` in one of several processes
status cli_launcher_check(const char *transport, error_message *err);
