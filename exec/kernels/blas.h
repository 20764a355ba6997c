/// What the module dynmo_blas hands over: products of fp32 matrices.
#pragma once

#include "exec/kernels/kernels.h"

typedef struct exec_blas_module {
    /// The library computes on the caller's thread alone from now on.
    void (*use_one_thread)(void);
    /// As the row of exec_kernel_table, of fp32 matrices in host memory.
    void (*matmul)(const exec_matmul *shape, const float *a, const float *b, float *c);
} exec_blas_module;
