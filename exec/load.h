/// Opens loadable modules, so that the program starts without MPI, CUDA, NCCL and BLAS, and runs
/// where they are not installed.
#pragma once

#include "base/status.h"
#include "exec/module.h"

/// Opens the module `dynmo_<name>.so`, which lies in the running program's folder, in the folder
/// above it (as for tests in a build), or in `../lib/dynmo` seen from it (as installed).
///
/// @param name   "mpi", "blas", "cuda" or "nccl" (asserted)
/// @param module out: valid to the end of the process; a module is never closed again. Asking twice
///               gives the same one. Untouched on failure.
/// @return STATUS_UNSUPPORTED if there is none ("this build has no MPI: ..."), if it or a library
///         that it needs cannot be loaded, or if it is of another build than the program.
status exec_module_load(const char *name, const exec_module **module, error_message *err);

/// The same for a program whose path is given.
status exec_module_load_beside(const char *program, const char *name, const exec_module **module,
                               error_message *err);
