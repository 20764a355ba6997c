/// The kernels that come from the module dynmo_cuda.
#include "exec/cuda.h"
#include "exec/load.h"

status exec_kernels_cuda_open(exec_cuda_kind kind, int place, int place_count,
                              exec_kernels **kernels, error_message *err)
{
    const exec_module *module = NULL;
    TRY(exec_module_load("cuda", &module, err));
    return module->cuda->open(kind, place, place_count, kernels, err);
}
