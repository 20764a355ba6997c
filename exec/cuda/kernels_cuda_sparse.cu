// Products with matrices of few entries, and masks.

#include "exec/cuda/kernels_cuda.cuh"
#include "exec/cuda/kernels_cuda_primitives.cuh"

/// A block of lanes works out 32 rows of input times ROWS_AT_ONCE rows of the matrix, over
/// COLUMNS_AT_ONCE columns at a time, which it holds turned in shared memory.
static constexpr int COLUMNS_AT_ONCE = 256, WARP_MATRIX_ROWS = 8;
static constexpr int ROWS_AT_ONCE = WARP_MATRIX_ROWS * BLOCK_WARPS;

template <typename Value>
__global__ void sparse_fill(exec_sparse matrix, bool is_transposed, const Value *dense)
{
    const size_t row = blockIdx.x;
    const size_t row_step = is_transposed ? 1 : matrix.columns;
    const size_t column_step = is_transposed ? matrix.rows : 1;
    const int end = matrix.first_entry[row + 1];
    for (int entry = matrix.first_entry[row] + threadIdx.x; entry < end; entry += BLOCK_LANES) {
        const size_t column = matrix.column[entry];
        ((Value *)matrix.value)[entry] = dense[row * row_step + column * column_step];
    }
}

int exec_cuda_sparse_fill(void *stream, exec_cuda_kind kind, const exec_sparse *matrix,
                          bool is_transposed, const void *dense)
{
    if (kind == EXEC_CUDA_BF16) {
        return launch(sparse_fill<bf16>, matrix->rows, BLOCK_LANES, 0, stream, *matrix,
                      is_transposed, (const bf16 *)dense);
    }
    return launch(sparse_fill<float>, matrix->rows, BLOCK_LANES, 0, stream, *matrix, is_transposed,
                  (const float *)dense);
}

/// Lane of a warp: a row of the input. Warp: WARP_MATRIX_ROWS rows of the matrix, whose entries are
/// met in ascending columns, so each row's sum goes on where the columns before have ended.
template <typename Value>
__global__ void sparse_matmul(exec_sparse matrix, const Value *input, int rows, bool accumulates,
                              Value *output)
{
    float *turned = launch_shared<float>(); // [COLUMNS_AT_ONCE][WARP_LANES + 1]
    const int lane = threadIdx.x % WARP_LANES, warp = threadIdx.x / WARP_LANES;
    const int first_row = blockIdx.y * WARP_LANES;
    const int first_matrix_row = (int)blockIdx.x * ROWS_AT_ONCE + warp * WARP_MATRIX_ROWS;
    const Value *value = (const Value *)matrix.value;
    float sum[WARP_MATRIX_ROWS] = {};
    int entry[WARP_MATRIX_ROWS], end[WARP_MATRIX_ROWS];
#pragma unroll
    for (int part = 0; part < WARP_MATRIX_ROWS; part++) {
        const int row = min(first_matrix_row + part, matrix.rows - 1);
        entry[part] = matrix.first_entry[row];
        end[part] = matrix.first_entry[row + 1];
    }
    for (int first = 0; first < matrix.columns; first += COLUMNS_AT_ONCE) {
        const int columns = min(matrix.columns - first, (int)COLUMNS_AT_ONCE);
        __syncthreads();
        for (int at = threadIdx.x; at < WARP_LANES * columns; at += BLOCK_LANES) {
            const int row = at / columns, column = at % columns;
            const bool is_there = first_row + row < rows;
            turned[column * (WARP_LANES + 1) + row] =
                is_there
                    ? to_float(input[(size_t)(first_row + row) * matrix.columns + first + column])
                    : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int part = 0; part < WARP_MATRIX_ROWS; part++) {
            for (; entry[part] < end[part] && matrix.column[entry[part]] < first + columns;
                 entry[part]++) {
                const int column = matrix.column[entry[part]] - first;
                sum[part] +=
                    to_float(value[entry[part]]) * turned[column * (WARP_LANES + 1) + lane];
            }
        }
    }
    if (first_row + lane >= rows) return;
#pragma unroll
    for (int part = 0; part < WARP_MATRIX_ROWS; part++) {
        if (first_matrix_row + part >= matrix.rows) break;
        Value *to = output + (size_t)(first_row + lane) * matrix.rows + first_matrix_row + part;
        *to = from_float<Value>(accumulates ? to_float(*to) + sum[part] : sum[part]);
    }
}

int exec_cuda_sparse_matmul(void *stream, exec_cuda_kind kind, const exec_sparse *matrix,
                            const void *input, int rows, bool accumulates, void *output)
{
    const dim3 grid((matrix->rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE,
                    (rows + WARP_LANES - 1) / WARP_LANES);
    const size_t bytes = sizeof(float) * COLUMNS_AT_ONCE * (WARP_LANES + 1);
    if (kind == EXEC_CUDA_BF16) {
        return launch(sparse_matmul<bf16>, grid, BLOCK_LANES, bytes, stream, *matrix,
                      (const bf16 *)input, rows, accumulates, (bf16 *)output);
    }
    return launch(sparse_matmul<float>, grid, BLOCK_LANES, bytes, stream, *matrix,
                  (const float *)input, rows, accumulates, (float *)output);
}

/// A block owns a row of the gradient, a lane some of its entries, whose columns lie near to those
/// of the lanes beside it.
template <typename Value>
__global__ void sparse_gradient(exec_sparse matrix, const Value *input,
                                const Value *output_gradient, int rows, float *gradient)
{
    const int own = blockIdx.x, end = matrix.first_entry[own + 1];
    for (int entry = matrix.first_entry[own] + threadIdx.x; entry < end; entry += BLOCK_LANES) {
        const int column = matrix.column[entry];
        float sum = 0.0f;
        for (int row = 0; row < rows; row++) {
            sum += to_float(input[(size_t)row * matrix.rows + own]) *
                   to_float(output_gradient[(size_t)row * matrix.columns + column]);
        }
        gradient[(size_t)own * matrix.columns + column] += sum;
    }
}

int exec_cuda_sparse_gradient(void *stream, exec_cuda_kind kind, const exec_sparse *matrix,
                              const void *input, const void *output_gradient, int rows,
                              float *gradient)
{
    if (kind == EXEC_CUDA_BF16) {
        return launch(sparse_gradient<bf16>, matrix->rows, BLOCK_LANES, 0, stream, *matrix,
                      (const bf16 *)input, (const bf16 *)output_gradient, rows, gradient);
    }
    return launch(sparse_gradient<float>, matrix->rows, BLOCK_LANES, 0, stream, *matrix,
                  (const float *)input, (const float *)output_gradient, rows, gradient);
}

__global__ void mask(float *values, const uint8_t *keep, size_t count)
{
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride) {
        if (keep[at] == 0) values[at] = 0.0f;
    }
}

int exec_cuda_mask(void *stream, float *values, const uint8_t *keep, size_t count)
{
    return launch(mask, grid_for(count), BLOCK_LANES, 0, stream, values, keep, count);
}
