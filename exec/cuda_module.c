#include "exec/cuda.h"
#include "exec/kernels_cuda_open.h"
#include "exec/module.h"

const exec_module *dynmo_module(void)
{
    static const exec_cuda_module cuda = {.open = exec_cuda_kernels_open};
    static const exec_module module = {
        .interface = EXEC_MODULE_INTERFACE, .name = "cuda", .cuda = &cuda};
    return &module;
}
