// The module dynmo_blas over OpenBLAS.
#include "exec/kernels/blas.h"
#include "base/loadable.h"

#include <cblas.h>

static void use_one_thread(void)
{
    openblas_set_num_threads(1);
}

static void matmul(const exec_matmul *shape, const float *a, const float *b, float *c)
{
    const int a_columns = shape->transposes_a ? shape->rows : shape->inner;
    const int b_columns = shape->transposes_b ? shape->inner : shape->columns;
    cblas_sgemm(CblasRowMajor, shape->transposes_a ? CblasTrans : CblasNoTrans,
                shape->transposes_b ? CblasTrans : CblasNoTrans, shape->rows, shape->columns,
                shape->inner, 1.0F, a, a_columns, b, b_columns, shape->accumulates ? 1.0F : 0.0F, c,
                shape->columns);
}

const loadable *dynmo_module(void)
{
    static const exec_blas_module blas = {.use_one_thread = use_one_thread, .matmul = matmul};
    static const loadable module = {
        .interface = LOADABLE_INTERFACE, .name = "blas", .table = &blas};
    return &module;
}
