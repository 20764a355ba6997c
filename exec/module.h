/// What a loadable module (dynmo_mpi.so, dynmo_blas.so, dynmo_cuda.so, dynmo_nccl.so) hands over.
///
/// A module holds the code that needs a library the program itself can do without. It is built only
/// where that library is found, and opened only when a command asks for it (load.h). It links what
/// it needs of base, balance and exec itself: program and module share no variables, only what is
/// passed in calls.
#pragma once

struct exec_transport_module; // exec/transports.h
struct exec_blas_module;      // exec/blas.h
struct exec_cuda_module;      // exec/cuda.h

/// To be increased with every change of this struct, of one that it points to, or of one that is
/// passed through those: program and module of different builds then refuse each other.
enum { EXEC_MODULE_INTERFACE = 1 };

/// Static storage of the module. The pointer that belongs to its name is set.
typedef struct exec_module {
    int interface;    // EXEC_MODULE_INTERFACE when the module was compiled. Stays the first member
    const char *name; // "mpi", "blas", "cuda", "nccl"
    const struct exec_transport_module *transport; // of mpi and nccl
    const struct exec_blas_module *blas;
    const struct exec_cuda_module *cuda;
} exec_module;

/// The only symbol that a module exports.
__attribute__((visibility("default"))) const exec_module *dynmo_module(void);
