#include "exec/cuda/cuda_backend.h"

#include "base/arena.h"
#include "exec/cuda/cuda_check.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const size_t WORKSPACE_BYTES = (size_t)32 << 20;

enum { CHOICES_MAX = 16 };

struct exec_cuda_products {
    const exec_cuda_part *part;
    cublasLtHandle_t handle;
    void *device_workspace;
};

/// What an algorithm is chosen by. Compared as bytes: filled from zeros, all members of four bytes.
typedef struct product_key {
    int device;
    int is_bf16;
    int is_wide; // all matrices lie at multiples of 16 bytes
    int rows, columns, inner;
    int transposes_a, transposes_b, accumulates, is_float;
} product_key;

typedef struct pinned_algorithm {
    product_key key;
    cublasLtMatmulAlgo_t algorithm;
} pinned_algorithm;

/// The process's table of algorithms: it only grows.
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pinned_algorithm *table;
static int table_count;

/// A product as cuBLASLt sees it: column-major, so it computes the transposed of all.
typedef struct product {
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t first, second, result; // b, a, c
} product;

#define TRY_LT(call)                                                                               \
    do {                                                                                           \
        const cublasStatus_t try_status = (call);                                                  \
        if (try_status != CUBLAS_STATUS_SUCCESS) {                                                 \
            return error_set(err, STATUS_BACKEND, "%s failed: %s", #call,                          \
                             cublasLtGetStatusName(try_status));                                   \
        }                                                                                          \
    } while (0)

status exec_cuda_products_open(const exec_cuda_part *part, exec_cuda_products **products,
                               error_message *err)
{
    exec_cuda_products *opened = memory_array(1, sizeof *opened);
    opened->part = part;
    const cublasStatus_t result = cublasLtCreate(&opened->handle);
    if (result != CUBLAS_STATUS_SUCCESS) {
        free(opened);
        return error_set(err, STATUS_BACKEND, "cublasLtCreate failed: %s",
                         cublasLtGetStatusName(result));
    }
    const cudaError_t error = cudaMalloc(&opened->device_workspace, WORKSPACE_BYTES);
    if (error != cudaSuccess) {
        cublasLtDestroy(opened->handle);
        free(opened);
        return exec_cuda_failure((int)error, "cudaMalloc of the workspace", err);
    }
    *products = opened;
    return STATUS_OK;
}

void exec_cuda_products_close(exec_cuda_products *products)
{
    cudaFree(products->device_workspace);
    cublasLtDestroy(products->handle);
    free(products);
}

static uint64_t dimension(int value)
{
    return (uint64_t)value;
}

/// A matrix that is stored as rows of `columns` is one of columns x rows to cuBLASLt.
static status describe_matrix(cublasLtMatrixLayoutOpaque_t *layout, bool is_bf16, int rows,
                              int columns, error_message *err)
{
    TRY_LT(cublasLtMatrixLayoutInit(layout, is_bf16 ? CUDA_R_16BF : CUDA_R_32F, dimension(columns),
                                    dimension(rows), columns));
    return STATUS_OK;
}

/// For the whole GPU.
static status describe_product(const product_key *key, product *described, error_message *err)
{
    const cublasOperation_t first = key->transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = key->transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulDesc_t description = &described->description;
    TRY_LT(cublasLtMatmulDescInit(description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY_LT(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                          sizeof first));
    TRY_LT(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                          sizeof second));
    TRY(describe_matrix(&described->first, key->is_bf16,
                        key->transposes_b ? key->columns : key->inner,
                        key->transposes_b ? key->inner : key->columns, err));
    TRY(describe_matrix(&described->second, key->is_bf16,
                        key->transposes_a ? key->inner : key->rows,
                        key->transposes_a ? key->rows : key->inner, err));
    return describe_matrix(&described->result, key->is_bf16 && !key->is_float, key->rows,
                           key->columns, err);
}

/// Whether an algorithm sums every element of the result in one piece.
static bool sums_in_one_piece(const cublasLtMatmulAlgo_t *algorithm)
{
    int32_t pieces = 0;
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_MASK;
    size_t written = 0;
    const bool is_told =
        cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &pieces,
                                             sizeof pieces, &written) == CUBLAS_STATUS_SUCCESS &&
        cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                             &scheme, sizeof scheme,
                                             &written) == CUBLAS_STATUS_SUCCESS;
    return is_told && pieces <= 1 && scheme == CUBLASLT_REDUCTION_SCHEME_NONE;
}

static status prefer(const product_key *key, cublasLtMatmulPreferenceOpaque_t *preference,
                     error_message *err)
{
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint32_t alignment = key->is_wide ? 16 : key->is_bf16 ? 2 : 4;
    const uint32_t result_alignment = key->is_wide ? 16 : key->is_bf16 && !key->is_float ? 2 : 4;
    TRY_LT(cublasLtMatmulPreferenceInit(preference));
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(preference,
                                                CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                &WORKSPACE_BYTES, sizeof WORKSPACE_BYTES));
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme));
    const cublasLtMatmulPreferenceAttributes_t sides[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES};
    for (int side = 0; side < 2; side++) {
        TRY_LT(cublasLtMatmulPreferenceSetAttribute(preference, sides[side], &alignment,
                                                    sizeof alignment));
    }
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(preference,
                                                CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                &result_alignment, sizeof result_alignment));
    TRY_LT(cublasLtMatmulPreferenceSetAttribute(preference,
                                                CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                                                &result_alignment, sizeof result_alignment));
    return STATUS_OK;
}

/// Asks cuBLASLt, for the whole GPU, and takes its first answer that sums in one piece.
static status choose(cublasLtHandle_t handle, const product_key *key,
                     cublasLtMatmulAlgo_t *algorithm, error_message *err)
{
    product described;
    cublasLtMatmulPreferenceOpaque_t preference;
    TRY(describe_product(key, &described, err));
    TRY(prefer(key, &preference, err));
    cublasLtMatmulHeuristicResult_t choices[CHOICES_MAX];
    int choice_count = 0;
    const cublasStatus_t result = cublasLtMatmulAlgoGetHeuristic(
        handle, &described.description, &described.first, &described.second, &described.result,
        &described.result, &preference, CHOICES_MAX, choices, &choice_count);
    for (int choice = 0; result == CUBLAS_STATUS_SUCCESS && choice < choice_count; choice++) {
        if (choices[choice].state != CUBLAS_STATUS_SUCCESS) continue;
        if (!sums_in_one_piece(&choices[choice].algo)) continue;
        *algorithm = choices[choice].algo;
        return STATUS_OK;
    }
    return error_set(err, STATUS_UNSUPPORTED,
                     "cuBLASLt knows no algorithm for %d x %d x %d values (%s)", key->rows,
                     key->columns, key->inner, cublasLtGetStatusName(result));
}

/// The algorithm of a key, chosen when it is first asked for.
static status pinned(cublasLtHandle_t handle, const product_key *key,
                     cublasLtMatmulAlgo_t *algorithm, error_message *err)
{
    status result = STATUS_OK;
    pthread_mutex_lock(&table_lock);
    int entry = 0;
    while (entry < table_count && memcmp(&table[entry].key, key, sizeof *key) != 0) {
        entry++;
    }
    if (entry == table_count) {
        table = memory_grow(table, (size_t)table_count, sizeof *table);
        table[entry].key = *key;
        result = choose(handle, key, &table[entry].algorithm, err);
        if (result == STATUS_OK) table_count++;
    }
    if (result == STATUS_OK) *algorithm = table[entry].algorithm;
    pthread_mutex_unlock(&table_lock);
    return result;
}

static int rounded_up(int rows)
{
    return (rows + 63) / 64 * 64;
}

static bool is_wide(const void *memory)
{
    return (uintptr_t)memory % 16 == 0;
}

static cublasStatus_t check(cublasLtHandle_t handle, product *described,
                            const cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t result;
    return cublasLtMatmulAlgoCheck(handle, &described->description, &described->first,
                                   &described->second, &described->result, &described->result,
                                   algorithm, &result);
}

/// The algorithm of the rounded shape; of the shape itself where that one does not fit.
static status find_algorithm(exec_cuda_products *products, const product_key *key,
                             product *described, cublasLtMatmulAlgo_t *algorithm,
                             error_message *err)
{
    product_key rounded = *key;
    rounded.rows = rounded_up(key->rows);
    if (key->transposes_a) {
        rounded.rows = key->rows; // of a weight; the sum is over rows of tokens
        rounded.inner = rounded_up(key->inner);
    }
    if (pinned(products->handle, &rounded, algorithm, NULL) == STATUS_OK &&
        check(products->handle, described, algorithm) == CUBLAS_STATUS_SUCCESS) {
        return STATUS_OK;
    }
    return pinned(products->handle, key, algorithm, err);
}

/// @param target multiprocessors that the kernel is told of; 0: the whole GPU's
static cublasStatus_t enqueue(exec_cuda_products *products, product *described, bool accumulates,
                              const cublasLtMatmulAlgo_t *algorithm, int32_t target, const void *a,
                              const void *b, void *c)
{
    const float one = 1.0f, beta = accumulates ? 1.0f : 0.0f;
    const cublasStatus_t told = cublasLtMatmulDescSetAttribute(
        &described->description, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, sizeof target);
    if (told != CUBLAS_STATUS_SUCCESS) return told;
    return cublasLtMatmul(products->handle, &described->description, &one, b, &described->first, a,
                          &described->second, &beta, c, &described->result, c, &described->result,
                          algorithm, products->device_workspace, WORKSPACE_BYTES,
                          products->part->stream);
}

/// By an algorithm that the shape alone decides, whatever part of the GPU computes.
static status multiply(exec_cuda_products *products, const product_key *key, const void *a,
                       const void *b, void *c, error_message *err)
{
    const exec_cuda_part *part = products->part;
    product described;
    cublasLtMatmulAlgo_t algorithm;
    TRY(describe_product(key, &described, err));
    TRY(find_algorithm(products, key, &described, &algorithm, err));
    cublasStatus_t result = CUBLAS_STATUS_NOT_SUPPORTED;
    if (part->place_count > 1) {
        result = enqueue(products, &described, key->accumulates, &algorithm,
                         part->multiprocessor_count, a, b, c);
    }
    // Not every algorithm can be told how many multiprocessors it will find.
    if (result != CUBLAS_STATUS_SUCCESS) {
        result = enqueue(products, &described, key->accumulates, &algorithm, 0, a, b, c);
    }
    if (result == CUBLAS_STATUS_SUCCESS) return STATUS_OK;
    return error_set(err, STATUS_BACKEND, "the product of %d x %d x %d values failed: %s",
                     key->rows, key->columns, key->inner, cublasLtGetStatusName(result));
}

status exec_cuda_products_multiply(exec_cuda_products *products, exec_cuda_kind kind,
                                   const exec_matmul *shape, const void *a, const void *b, void *c,
                                   error_message *err)
{
    if (shape->rows == 0 || shape->columns == 0) return STATUS_OK;
    const bool is_bf16 = kind == EXEC_CUDA_BF16;
    const cudaStream_t stream = products->part->stream;
    if (shape->inner == 0) {
        const size_t value_bytes = is_bf16 && !shape->is_float ? 2 : 4;
        const size_t bytes = (size_t)shape->rows * (size_t)shape->columns * value_bytes;
        if (!shape->accumulates) TRY_CUDA(cudaMemsetAsync(c, 0, bytes, stream));
        return STATUS_OK;
    }
    int device;
    TRY_CUDA(cudaGetDevice(&device));
    const product_key key = {.device = device,
                             .is_bf16 = is_bf16,
                             .is_wide = is_wide(a) && is_wide(b) && is_wide(c),
                             .rows = shape->rows,
                             .columns = shape->columns,
                             .inner = shape->inner,
                             .transposes_a = shape->transposes_a,
                             .transposes_b = shape->transposes_b,
                             .accumulates = shape->accumulates,
                             .is_float = is_bf16 && shape->is_float};
    return multiply(products, &key, a, b, c, err);
}
