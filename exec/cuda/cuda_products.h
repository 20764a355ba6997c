/// Products of matrices by cuBLASLt, with algorithms that are chosen once and for all stages.
///
/// cuBLASLt promises equal bits only for the same algorithm, so the choice must not depend on the
/// part of the GPU that asks. One table of the process holds the algorithm of every shape and pass,
/// chosen for the whole GPU, and none that splits a sum. Rows and sums over rows are rounded up to
/// 64 for the choice, because mechanisms change them all the time.
#pragma once

#include "base/status.h"
#include "exec/cuda/cuda_part.h"
#include "exec/cuda/kernels_cuda.h"
#include "exec/kernels/kernels.h"

/// A stage's handle and workspace.
typedef struct exec_cuda_products exec_cuda_products;

/// @param part borrowed until exec_cuda_products_close
status exec_cuda_products_open(const exec_cuda_part *part, exec_cuda_products **products,
                               error_message *err);
void exec_cuda_products_close(exec_cuda_products *products);

/// Enqueues a product; matrices are device memory, as exec_kernel_table.matmul has them.
/// @return STATUS_BACKEND naming shape and failure; STATUS_UNSUPPORTED if no algorithm fits
status exec_cuda_products_multiply(exec_cuda_products *products, exec_cuda_kind kind,
                                   const exec_matmul *shape, const void *a, const void *b, void *c,
                                   error_message *err);
