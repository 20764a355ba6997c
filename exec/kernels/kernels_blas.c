#include "base/loadable.h"
#include "exec/kernels/blas.h"
#include "exec/kernels/kernels_cpu.h"

/// Products of few numbers cost more to hand over than to compute, and a BLAS may not know what to
/// do with none.
static const long long few = 512;

static void blas_matmul(exec_kernels *kernels, const exec_matmul *shape, const void *a,
                        const void *b, void *c)
{
    if ((long long)shape->rows * shape->columns * shape->inner < few) {
        exec_cpu_matmul(kernels, shape, a, b, c);
        return;
    }
    ((const exec_cpu *)kernels)->blas->matmul(shape, a, b, c);
}

status exec_kernels_blas_open(exec_kernels **kernels, error_message *err)
{
    const loadable *module;
    TRY(loadable_open("blas", &module, err));
    exec_kernels *opened;
    TRY(exec_kernels_cpu_open(&opened));
    exec_cpu *cpu = (exec_cpu *)opened;
    cpu->blas = module->table;
    cpu->blas->use_one_thread();
    cpu->blas_table = *opened->table;
    cpu->blas_table.name = "cpu with BLAS";
    cpu->blas_table.matmul = blas_matmul;
    cpu->blas_table.sparse_matmul_density = 0.35; // as in kernels_cpu.c, with OpenBLAS 0.3.21
    cpu->blas_table.sparse_gradient_density = 0.25;
    opened->table = &cpu->blas_table;
    *kernels = opened;
    return STATUS_OK;
}
