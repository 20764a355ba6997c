/// What dynmo_cuda.so offers to the program that opens it.
#include "base/loadable.h"
#include "exec/cuda/cuda_backend.h"

const loadable *dynmo_module(void)
{
    static const loadable module = {.interface = LOADABLE_INTERFACE,
                                    .name = "cuda",
                                    .function = (void (*)(void))exec_cuda_kernels_open};
    return &module;
}
