/// Loadable modules: code that needs a library which the program itself can do without, so that the
/// program starts without MPI, CUDA and NCCL, and runs where they are not installed.
///
/// A module dynmo_<name>.so is built only where its library is found, and opened only when a
/// command asks for it. It links what it needs of the static libraries itself: program and module
/// share no variables, only what is passed in calls.
#pragma once

#include "base/status.h"

/// To be increased with every change of this struct, of a function, or of a struct that is passed
/// through one: program and module of different builds then refuse each other.
enum { LOADABLE_INTERFACE = 4 };

/// What a module hands over. Static storage of the module.
typedef struct loadable {
    int interface;    // LOADABLE_INTERFACE when the module was compiled. Stays the first member
    const char *name; // "mpi", "cuda", "nccl"
    void (*function)(void); // what it is for: an exec_transport_runner of mpi and nccl, cuda's as
                            // exec_kernels_cuda_open
} loadable;

/// The only symbol that a module exports.
__attribute__((visibility("default"))) const loadable *dynmo_module(void);

/// Opens the module `dynmo_<name>.so`, which lies in the running program's folder, in the folder
/// above it (as for tests in a build), or in `../lib/dynmo` seen from it (as installed).
///
/// @param name  of the list above (asserted)
/// @param found out: valid to the end of the process; a module is never closed again. Asking twice
///              gives the same one. Untouched on failure.
/// @return STATUS_UNSUPPORTED if there is none ("this build has no MPI: ..."), if it or a library
///         that it needs cannot be loaded, or if it is of another build than the program.
status loadable_open(const char *name, const loadable **found, error_message *err);

/// The same for a program whose path is given.
status loadable_open_beside(const char *program, const char *name, const loadable **found,
                            error_message *err);
