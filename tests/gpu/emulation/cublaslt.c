/// The emulated cuBLASLt: its first answer splits the sum, so that callers must look for another.

#include "cublasLt.h"
#include "emulation.h"
#include "exec/kernels/kernels.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct cublasLtContext {
    char unused;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = calloc(1, sizeof **handle);
    return *handle != NULL ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusName(cublasStatus_t result)
{
    return result == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_EMULATED";
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t description, cublasComputeType_t compute,
                                      cudaDataType_t scale)
{
    (void)compute;
    (void)scale;
    memset(description, 0, sizeof *description);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    if (bytes != 4) return CUBLAS_STATUS_INVALID_VALUE;
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) memcpy(&description->transposes_a, value, bytes);
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) memcpy(&description->transposes_b, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout, cudaDataType_t type,
                                        uint64_t rows, uint64_t columns, int64_t stride)
{
    *layout = (cublasLtMatrixLayoutOpaque_t){type, rows, columns, stride};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference)
{
    preference->reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
        memcpy(&preference->reduction_mask, value, bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference,
                                              int wanted_count,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    if (wanted_count < 2) return CUBLAS_STATUS_INVALID_VALUE;
    results[0] =
        (cublasLtMatmulHeuristicResult_t){{4, preference->reduction_mask}, CUBLAS_STATUS_SUCCESS};
    *count = 2;
    const cublasLtMatmulAlgo_t whole = {1, CUBLASLT_REDUCTION_SCHEME_NONE};
    return cublasLtMatmulAlgoCheck(handle, description, a, b, c, d, &whole, &results[1]);
}

/// Rows and columns of a side after its transposition.
static uint64_t side(cublasLtMatrixLayout_t layout, cublasOperation_t transposes, bool wants_rows)
{
    return (transposes == CUBLAS_OP_T) != wants_rows ? layout->rows : layout->columns;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    (void)handle;
    (void)c;
    const uint64_t inner = side(a, description->transposes_a, false);
    const bool fits = side(a, description->transposes_a, true) == d->rows &&
                      side(b, description->transposes_b, false) == d->columns &&
                      side(b, description->transposes_b, true) == inner;
    result->algo = *algorithm;
    result->state = fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    return result->state;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written)
{
    if (bytes != 4) return CUBLAS_STATUS_INVALID_VALUE;
    const bool is_split = attribute == CUBLASLT_ALGO_CONFIG_SPLITK_NUM;
    memcpy(value, is_split ? (const void *)&algorithm->split_count : &algorithm->scheme, bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

static float value_at(const void *matrix, const cublasLtMatrixLayoutOpaque_t *layout, uint64_t row,
                      uint64_t column)
{
    const size_t at = (size_t)(column * (uint64_t)layout->stride + row);
    if (layout->type == CUDA_R_32F) return ((const float *)matrix)[at];
    const uint32_t bits = (uint32_t)((const uint16_t *)matrix)[at] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_at(void *matrix, const cublasLtMatrixLayoutOpaque_t *layout, uint64_t row,
                   uint64_t column, float value)
{
    const size_t at = (size_t)(column * (uint64_t)layout->stride + row);
    if (layout->type == CUDA_R_32F) {
        ((float *)matrix)[at] = value;
        return;
    }
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    ((uint16_t *)matrix)[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// A product as it is enqueued.
typedef struct enqueued_product {
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t a_layout, b_layout, c_layout, d_layout;
    const void *a, *b, *c;
    void *d;
    float scale, old_scale;
} enqueued_product;

static uint64_t inner_count(const enqueued_product *of)
{
    return of->description.transposes_a == CUBLAS_OP_T ? of->a_layout.rows : of->a_layout.columns;
}

/// All in fp32: the product of the plain C backend, whose bits those of quick kernels are to be. It
/// sees rows where cuBLAS sees columns, and so the sides the other way round.
static void multiply_floats(const enqueued_product *of)
{
    static exec_kernels *cpu; // made once: products run one at a time
    if (cpu == NULL && exec_kernels_cpu_open(&cpu) != STATUS_OK) abort();
    const exec_matmul shape = {.rows = (int)of->d_layout.columns,
                               .columns = (int)of->d_layout.rows,
                               .inner = (int)inner_count(of),
                               .transposes_a = of->description.transposes_b == CUBLAS_OP_T,
                               .transposes_b = of->description.transposes_a == CUBLAS_OP_T,
                               .accumulates = of->old_scale != 0.0F,
                               .is_float = true};
    cpu->table->matmul(cpu, &shape, of->b, of->a, of->d);
}

static void multiply(const void *argument)
{
    enqueued_product *of = &(enqueued_product){0};
    memcpy(of, argument, sizeof *of);
    if (of->a_layout.type == CUDA_R_32F && of->b_layout.type == CUDA_R_32F) {
        multiply_floats(of);
        return;
    }
    const bool turns_a = of->description.transposes_a == CUBLAS_OP_T;
    const bool turns_b = of->description.transposes_b == CUBLAS_OP_T;
    for (uint64_t column = 0; column < of->d_layout.columns; column++) {
        for (uint64_t row = 0; row < of->d_layout.rows; row++) {
            float sum = 0.0F;
            for (uint64_t inner = 0; inner < inner_count(of); inner++) {
                sum +=
                    value_at(of->a, &of->a_layout, turns_a ? inner : row, turns_a ? row : inner) *
                    value_at(of->b, &of->b_layout, turns_b ? column : inner,
                             turns_b ? inner : column);
            }
            const float old = of->old_scale != 0.0F
                                  ? of->old_scale * value_at(of->c, &of->c_layout, row, column)
                                  : 0.0F;
            put_at(of->d, &of->d_layout, row, column, of->scale * sum + old);
        }
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    (void)workspace;
    (void)workspace_bytes;
    cublasLtMatmulHeuristicResult_t checked;
    const cublasStatus_t result = cublasLtMatmulAlgoCheck(handle, description, a_layout, b_layout,
                                                          c_layout, d_layout, algorithm, &checked);
    if (result != CUBLAS_STATUS_SUCCESS) return result;
    const enqueued_product made = {
        *description,          *a_layout,           *b_layout, *c_layout, *d_layout, a, b, c, d,
        *(const float *)alpha, *(const float *)beta};
    return gpu_emulation_enqueue(stream, multiply, &made, sizeof made) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
