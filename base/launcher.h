/// What a launcher (mpirun, srun) says in the environment of the processes that it starts.
#pragma once

/// How many processes were started together: by Open MPI's mpirun, by MPICH's and others' (PMI), by
/// srun. A batch script of Slurm is a step of one task.
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
