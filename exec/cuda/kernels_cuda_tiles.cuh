/// Tiles of bf16 in shared memory as the sides of products of the matrix units, and where a lane's
/// numbers of a result lie (multiply_add, kernels_cuda_primitives.cuh).
#pragma once

#include "exec/cuda/kernels_cuda.cuh"
#include "exec/cuda/kernels_cuda_primitives.cuh"

/// Values from row to row of a tile. Rows are 16 bytes longer than their values, so that eight rows
/// of a matrix lie in different banks.
template <int WIDTH> constexpr int TILE_PITCH = WIDTH + 8;

/// The left side of a product: 16 rows from `row`, 16 columns from `column`.
template <int WIDTH>
__device__ void load_left(uint32_t (&part)[4], const bf16 *tile, int row, int column)
{
    const int lane = threadIdx.x % WARP_LANES;
    load_matrices(part, tile + (row + lane % 16) * TILE_PITCH<WIDTH> + column + lane / 16 * 8);
}

/// The same of a tile that holds the left side transposed: 16 columns of the tile from `column` are
/// its rows, and it is summed over 16 rows of the tile from `row`.
template <int WIDTH>
__device__ void load_left_columns(uint32_t (&part)[4], const bf16 *tile, int row, int column)
{
    const int lane = threadIdx.x % WARP_LANES;
    load_matrices_transposed(part, tile + (row + lane / 16 * 8 + lane % 8) * TILE_PITCH<WIDTH> +
                                       column + lane / 8 % 2 * 8);
}

/// The right side of two products whose columns are 16 rows of the tile from `row`: parts 0 and 1
/// for the first eight, 2 and 3 for the others; summed over 16 columns of the tile from `column`.
template <int WIDTH>
__device__ void load_right_rows(uint32_t (&part)[4], const bf16 *tile, int row, int column)
{
    const int lane = threadIdx.x % WARP_LANES;
    load_matrices(part, tile + (row + lane / 16 * 8 + lane % 8) * TILE_PITCH<WIDTH> + column +
                            lane / 8 % 2 * 8);
}

/// The right side of two products whose columns are 16 columns of the tile from `column`; summed
/// over 16 rows from `row`.
template <int WIDTH>
__device__ void load_right_columns(uint32_t (&part)[4], const bf16 *tile, int row, int column)
{
    const int lane = threadIdx.x % WARP_LANES;
    load_matrices_transposed(part,
                             tile + (row + lane % 16) * TILE_PITCH<WIDTH> + column + lane / 16 * 8);
}

__device__ inline uint32_t two_values(float first, float second)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    uint32_t result;
    memcpy(&result, &both, sizeof result);
    return result;
}

/// Where the four numbers of a lane lie in a result of 16 x 8.
__device__ inline int result_row(int part)
{
    return (int)(threadIdx.x % WARP_LANES) / 4 + part / 2 * 8;
}

__device__ inline int result_column(int part)
{
    return (int)(threadIdx.x % 4) * 2 + part % 2;
}
