/// The kernels that come from the module dynmo_cuda.
#include "base/loadable.h"
#include "exec/cuda/kernels_cuda_open.h"

status exec_kernels_cuda_open(exec_cuda_kind kind, int place, int place_count,
                              exec_kernels **kernels, error_message *err)
{
    const loadable *module = NULL;
    TRY(loadable_open("cuda", &module, err));
    const exec_cuda_module *cuda = module->table;
    return cuda->open(kind, place, place_count, kernels, err);
}
