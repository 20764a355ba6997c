/// The kernels that come from the module dynmo_cuda.
#include "exec/kernels.h"
#include "exec/load.h"

status exec_kernels_cuda_open(bool uses_bf16, int place, int place_count, exec_kernels **kernels,
                              error_message *err)
{
    (void)uses_bf16;
    (void)place;
    (void)place_count;
    (void)kernels;
    const exec_module *module = NULL;
    TRY(exec_module_load("cuda", &module, err));
    return error_set(err, STATUS_UNSUPPORTED, "module dynmo_cuda: has no kernels");
}
