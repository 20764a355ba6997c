/// Measures cuBLASLt alone: the products of gpu_measure_kernels with whatever algorithm it names
/// first, split sums allowed. One line of JSON per figure. usage: gpu_measure_cublaslt [--smoke]
#include "tests/bench/bench.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>

static const size_t workspace_bytes = (size_t)32 << 20;

typedef struct product {
    cublasLtHandle_t handle;
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t first, second, result;
    cublasLtMatmulAlgo_t algorithm;
    void *a, *b, *c, *workspace;
    float beta;
    cudaStream_t stream;
} product;

static void require(int error, const char *what)
{
    if (error == 0) return;
    fprintf(stderr, "%s failed: %d\n", what, error);
    exit(1);
}

/// Values of all signs and sizes; zeros would draw less power.
static void *random_bf16(size_t count)
{
    uint16_t *values = malloc(count * sizeof *values);
    void *device = NULL;
    if (values == NULL) abort();
    uint64_t seed = 1;
    for (size_t index = 0; index < count; index++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        values[index] = (uint16_t)((seed >> 48 & 0x80ff) | 0x3f00);
    }
    require((int)cudaMalloc(&device, count * 4), "cudaMalloc"); // also as fp32
    require((int)cudaMemset(device, 0, count * 4), "cudaMemset");
    require((int)cudaMemcpy(device, values, count * 2, cudaMemcpyHostToDevice), "cudaMemcpy");
    free(values);
    return device;
}

static void multiply(product *of)
{
    const float one = 1.0F;
    require((int)cublasLtMatmul(of->handle, &of->description, &one, of->a, &of->first, of->b,
                                &of->second, &of->beta, of->c, &of->result, of->c, &of->result,
                                &of->algorithm, of->workspace, workspace_bytes, of->stream),
            "cublasLtMatmul");
}

/// Column-major: [m x k] times [k x n], either side stored transposed.
static void describe(product *of, int m, int n, int k, bool turns_first, bool turns_second,
                     bool is_float)
{
    const cublasOperation_t first = turns_first ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = turns_second ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t choice;
    int count = 0;
    of->beta = is_float ? 1.0F : 0.0F;
    require((int)cublasLtMatmulDescInit(&of->description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "Init");
    cublasLtMatmulDescSetAttribute(&of->description, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                   sizeof first);
    cublasLtMatmulDescSetAttribute(&of->description, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                   sizeof second);
    const int rows_first = turns_first ? k : m, rows_second = turns_second ? n : k;
    cublasLtMatrixLayoutInit(&of->first, CUDA_R_16BF, (uint64_t)rows_first,
                             (uint64_t)(turns_first ? m : k), rows_first);
    cublasLtMatrixLayoutInit(&of->second, CUDA_R_16BF, (uint64_t)rows_second,
                             (uint64_t)(turns_second ? k : n), rows_second);
    cublasLtMatrixLayoutInit(&of->result, is_float ? CUDA_R_32F : CUDA_R_16BF, (uint64_t)m,
                             (uint64_t)n, m);
    require((int)cublasLtMatmulPreferenceInit(&preference), "PreferenceInit");
    cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &workspace_bytes, sizeof workspace_bytes);
    require((int)cublasLtMatmulAlgoGetHeuristic(of->handle, &of->description, &of->first,
                                                &of->second, &of->result, &of->result, &preference,
                                                1, &choice, &count),
            "AlgoGetHeuristic");
    of->algorithm = choice.algo;
}

static double measure_ns(product *of, int repeats)
{
    cudaEvent_t begin, end;
    float ms = 0.0F, best_ms = 0.0F;
    require((int)cudaEventCreate(&begin), "cudaEventCreate");
    require((int)cudaEventCreate(&end), "cudaEventCreate");
    for (int sample = 0; sample < 6; sample++) {
        require((int)cudaEventRecord(begin, of->stream), "cudaEventRecord");
        for (int repeat = 0; repeat < repeats; repeat++) {
            multiply(of);
        }
        require((int)cudaEventRecord(end, of->stream), "cudaEventRecord");
        require((int)cudaEventSynchronize(end), "cudaEventSynchronize");
        require((int)cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        if (sample == 1 || (sample > 1 && ms < best_ms)) best_ms = ms;
    }
    return (double)best_ms * 1e6 / repeats;
}

int main(int argc, char **argv)
{
    const bool is_smoke = bench_is_smoke(argc, argv);
    const int n = is_smoke ? 128 : 4096, d = is_smoke ? 64 : 2048;
    int device_count = 0;
    if (cudaGetDeviceCount(&device_count) != cudaSuccess || device_count == 0) {
        printf("skipped: no GPU\n");
        return 77;
    }
    static const char *const linears[] = {"qkv", "output", "up", "down"};
    const int from[] = {d, d, d, 4 * d}, to[] = {3 * d, d, 4 * d, d};
    product of = {.a = random_bf16((size_t)n * (size_t)d * 4),
                  .b = random_bf16((size_t)n * (size_t)d * 4),
                  .c = random_bf16((size_t)n * (size_t)d * 4)};
    require((int)cudaMalloc(&of.workspace, workspace_bytes), "cudaMalloc");
    require((int)cudaStreamCreate(&of.stream), "cudaStreamCreate");
    require((int)cublasLtCreate(&of.handle), "cublasLtCreate");
    for (int linear = 0; linear < 4; linear++) {
        const double flop = 2.0 * n * from[linear] * to[linear];
        for (int pass = 0; pass < 3; pass++) {
            if (pass == 0) describe(&of, to[linear], n, from[linear], false, false, false);
            if (pass == 1) describe(&of, from[linear], n, to[linear], true, false, false);
            if (pass == 2) describe(&of, to[linear], from[linear], n, false, true, true);
            bench_print("cublaslt_alone_tflop_per_s", flop / measure_ns(&of, 10) * 1e-3, "TFLOP/s",
                        "bf16 n=%d d=%d %s %c", n, d, linears[linear], "FBW"[pass]);
        }
    }
    return 0;
}
