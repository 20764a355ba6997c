/// The kernels that come from the module dynmo_cuda.
#include "base/loadable.h"
#include "exec/kernels/kernels.h"

status exec_kernels_cuda_open(exec_cuda_kind kind, int place, int place_count,
                              exec_kernels **kernels, error_message *err)
{
    const loadable *module = NULL;
    TRY(loadable_open("cuda", &module, err));
    __typeof__(exec_kernels_cuda_open) *open = (__typeof__(open))module->function;
    return open(kind, place, place_count, kernels, err);
}
