// Products of rows in groups, each with its own matrix: the experts of a block. Where groups begin
// is known on the GPU only, so a grid has blocks for as many tiles as there may be, and a block
// finds its tile by itself.
//
// A sum over rows or columns has one owner, which adds in ascending order: shapes and groups alone
// decide.

#include "exec/cuda/kernels_cuda_tiles.cuh"

enum { GROUP_ROWS = 64, PLAIN_COLUMNS = 64, PLAIN_STEP = 16, MMA_COLUMNS = 128, MMA_STEP = 32 };

/// c of one group = a b, or +=: element (i, k) of a is a[i * a_row + k * a_inner], (k, j) of b is
/// b[k * b_inner + j * b_column].
template <typename Value, typename Result> struct group_product {
    exec_groups groups;
    int rows, columns, inner; // rows and inner of each group where they are its rows: not read
    bool transposes_a, transposes_b, accumulates;
    const Value *a, *b;
    Result *c;
};

/// The part of a product that is a block's: a tile of rows of one group, and of columns.
template <typename Value, typename Result> struct product_tile {
    int row_count; // of the tile; below 1: none
    int first_column, inner;
    const Value *a, *b; // of the tile's first row, of the group
    Result *c;          // of the tile's first row
};

template <typename Value, typename Result>
__device__ product_tile<Value, Result> find_tile(const group_product<Value, Result> &product,
                                                 int tile_columns)
{
    const int *first = product.groups.first;
    const int first_column = (int)blockIdx.x * tile_columns;
    int number = blockIdx.y;
    if (product.transposes_a) {
        const int tiles = (product.rows + GROUP_ROWS - 1) / GROUP_ROWS;
        const int group = number / tiles, row = number % tiles * GROUP_ROWS;
        const size_t begin = first[group];
        return {product.rows - row,
                first_column,
                first[group + 1] - first[group],
                product.a + begin * product.rows + row,
                product.b + begin * product.columns,
                product.c + ((size_t)group * product.rows + row) * product.columns};
    }
    const size_t matrix = (size_t)product.inner * product.columns;
    for (int group = 0; group < product.groups.count; group++) {
        const int rows = first[group + 1] - first[group];
        const int tiles = (rows + GROUP_ROWS - 1) / GROUP_ROWS;
        if (number >= tiles) {
            number -= tiles;
            continue;
        }
        const size_t begin = first[group] + number * GROUP_ROWS;
        return {rows - number * GROUP_ROWS,
                first_column,
                product.inner,
                product.a + begin * product.inner,
                product.b + group * matrix,
                product.c + begin * product.columns};
    }
    return {};
}

template <typename Value, typename Result>
static dim3 product_grid(const group_product<Value, Result> &product, int tile_columns)
{
    const int count = product.groups.count;
    const int row_tiles = product.transposes_a
                              ? (product.rows + GROUP_ROWS - 1) / GROUP_ROWS * count
                              : product.groups.row_count / GROUP_ROWS + count;
    return dim3((product.columns + tile_columns - 1) / tile_columns, row_tiles);
}

template <typename Result> __device__ void put_sum(Result *to, float sum, bool accumulates)
{
    *to = from_float<Result>(accumulates ? to_float(*to) + sum : sum);
}

/// Any shape: each lane has 4 x 4 sums.
template <typename Value, typename Result>
__global__ void __launch_bounds__(BLOCK_LANES) multiply_groups(group_product<Value, Result> product)
{
    __shared__ float left[PLAIN_STEP][GROUP_ROWS + 1], right[PLAIN_STEP][PLAIN_COLUMNS + 1];
    const product_tile<Value, Result> tile = find_tile(product, PLAIN_COLUMNS);
    const int lane_row = threadIdx.x / 16 * 4, lane_column = threadIdx.x % 16 * 4;
    if (tile.row_count < 1) return;
    float sum[4][4] = {};
    for (int begin = 0; begin < tile.inner; begin += PLAIN_STEP) {
        for (int at = threadIdx.x; at < PLAIN_STEP * GROUP_ROWS; at += BLOCK_LANES) {
            const int k = product.transposes_a ? at / GROUP_ROWS : at % PLAIN_STEP;
            const int row = product.transposes_a ? at % GROUP_ROWS : at / PLAIN_STEP;
            const bool is_there = row < tile.row_count && begin + k < tile.inner;
            const size_t place = product.transposes_a ? (size_t)(begin + k) * product.rows + row
                                                      : (size_t)row * tile.inner + begin + k;
            left[k][row] = is_there ? to_float(tile.a[place]) : 0.0f;
        }
        for (int at = threadIdx.x; at < PLAIN_STEP * PLAIN_COLUMNS; at += BLOCK_LANES) {
            const int k = product.transposes_b ? at % PLAIN_STEP : at / PLAIN_COLUMNS;
            const int own = product.transposes_b ? at / PLAIN_STEP : at % PLAIN_COLUMNS;
            const int column = tile.first_column + own;
            const bool is_there = column < product.columns && begin + k < tile.inner;
            const size_t place = product.transposes_b
                                     ? (size_t)column * tile.inner + begin + k
                                     : (size_t)(begin + k) * product.columns + column;
            right[k][own] = is_there ? to_float(tile.b[place]) : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < PLAIN_STEP; k++) {
            for (int row = 0; row < 4; row++) {
                for (int column = 0; column < 4; column++) {
                    sum[row][column] += left[k][lane_row + row] * right[k][lane_column + column];
                }
            }
        }
        __syncthreads();
    }
    for (int row = lane_row; row < lane_row + 4 && row < tile.row_count; row++) {
        for (int at = 0; at < 4; at++) {
            const int column = tile.first_column + lane_column + at;
            if (column >= product.columns) continue;
            put_sum(tile.c + (size_t)row * product.columns + column, sum[row - lane_row][at],
                    product.accumulates);
        }
    }
}

/// Begins to load ROWS x COLUMNS of a matrix whose rows are `stride` values apart; what lies beyond
/// its rows and columns becomes zeros.
template <int ROWS, int COLUMNS>
__device__ void begin_side(bf16 *tile, const bf16 *from, size_t stride, int rows, int columns)
{
    constexpr int PIECES = COLUMNS / 8;
    for (int piece = threadIdx.x; piece < ROWS * PIECES; piece += BLOCK_LANES) {
        const int row = piece / PIECES, column = piece % PIECES * 8;
        bf16 *to = tile + row * TILE_PITCH<COLUMNS> + column;
        if (row < rows && column < columns) {
            copy_16_behind(to, from + row * stride + column);
        } else {
            *(uint4 *)to = make_uint4(0, 0, 0, 0);
        }
    }
}

/// Tiles of both sides as they lie in memory.
template <bool TRANSPOSES_A, bool TRANSPOSES_B> struct product_sides {
    static constexpr int LEFT_VALUES =
        TRANSPOSES_A ? MMA_STEP * TILE_PITCH<GROUP_ROWS> : GROUP_ROWS * TILE_PITCH<MMA_STEP>;
    static constexpr int RIGHT_VALUES =
        TRANSPOSES_B ? MMA_COLUMNS * TILE_PITCH<MMA_STEP> : MMA_STEP * TILE_PITCH<MMA_COLUMNS>;
    static constexpr int VALUES = LEFT_VALUES + RIGHT_VALUES;

    template <typename Result>
    static __device__ void begin(bf16 *sides, const group_product<bf16, Result> &product,
                                 const product_tile<bf16, Result> &tile, int first)
    {
        const int rest = tile.inner - first, columns = product.columns - tile.first_column;
        if (TRANSPOSES_A) {
            begin_side<MMA_STEP, GROUP_ROWS>(sides, tile.a + (size_t)first * product.rows,
                                             product.rows, rest, tile.row_count);
        } else {
            begin_side<GROUP_ROWS, MMA_STEP>(sides, tile.a + first, tile.inner, tile.row_count,
                                             rest);
        }
        if (TRANSPOSES_B) {
            begin_side<MMA_COLUMNS, MMA_STEP>(
                sides + LEFT_VALUES, tile.b + (size_t)tile.first_column * tile.inner + first,
                tile.inner, columns, rest);
        } else {
            begin_side<MMA_STEP, MMA_COLUMNS>(
                sides + LEFT_VALUES, tile.b + (size_t)first * product.columns + tile.first_column,
                product.columns, rest, columns);
        }
    }

    /// sum += 32 rows times 32 columns of the tile, over one step.
    static __device__ void multiply(float (&sum)[2][4][4], const bf16 *sides, int row, int column)
    {
        const bf16 *right = sides + LEFT_VALUES;
#pragma unroll
        for (int k = 0; k < MMA_STEP; k += 16) {
            uint32_t a[2][4];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                if (TRANSPOSES_A) {
                    load_left_columns<GROUP_ROWS>(a[half], sides, k, row + half * 16);
                } else {
                    load_left<MMA_STEP>(a[half], sides, row + half * 16, k);
                }
            }
#pragma unroll
            for (int pair = 0; pair < 4; pair += 2) {
                uint32_t b[4];
                if (TRANSPOSES_B) {
                    load_right_rows<MMA_STEP>(b, right, column + pair * 8, k);
                } else {
                    load_right_columns<MMA_COLUMNS>(b, right, k, column + pair * 8);
                }
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    multiply_add(sum[half][pair], a[half], b[0], b[1]);
                    multiply_add(sum[half][pair + 1], a[half], b[2], b[3]);
                }
            }
        }
    }
};

/// On the matrix units: eight warps, 2 x 4 of them, each with 32 x 32 sums. The next step's tiles
/// come in behind the products.
template <bool TRANSPOSES_A, bool TRANSPOSES_B, typename Result>
__global__ void __launch_bounds__(BLOCK_LANES)
    multiply_groups_mma(group_product<bf16, Result> product)
{
    typedef product_sides<TRANSPOSES_A, TRANSPOSES_B> sides_of;
    bf16 *sides = launch_shared<bf16>();
    const product_tile<bf16, Result> tile = find_tile(product, MMA_COLUMNS);
    const int warp = threadIdx.x / WARP_LANES;
    const int warp_row = warp / 4 * 32, warp_column = warp % 4 * 32;
    if (tile.row_count < 1) return;
    float sum[2][4][4] = {};
    sides_of::begin(sides, product, tile, 0);
    close_copies();
    for (int first = 0, turn = 0; first < tile.inner; first += MMA_STEP, turn ^= 1) {
        const int next = first + MMA_STEP;
        if (next < tile.inner) {
            sides_of::begin(sides + (turn ^ 1) * sides_of::VALUES, product, tile, next);
        }
        close_copies();
        wait_for_copies<1>();
        __syncthreads();
        sides_of::multiply(sum, sides + turn * sides_of::VALUES, warp_row, warp_column);
        __syncthreads();
    }
    wait_for_copies<0>();
#pragma unroll
    for (int at = 0; at < 32; at++) {
        const int half = at / 16, pair = at / 4 % 4, part = at % 4;
        const int row = warp_row + half * 16 + result_row(part);
        const int column = tile.first_column + warp_column + pair * 8 + result_column(part);
        if (row >= tile.row_count || column >= product.columns) continue;
        put_sum(tile.c + (size_t)row * product.columns + column, sum[half][pair][part],
                product.accumulates);
    }
}

template <bool TRANSPOSES_A, bool TRANSPOSES_B, typename Result>
static void multiply_wide(exec_kernels *kernels, const group_product<bf16, Result> &product)
{
    launch(multiply_groups_mma<TRANSPOSES_A, TRANSPOSES_B, Result>,
           product_grid(product, MMA_COLUMNS), BLOCK_LANES,
           2 * sizeof(bf16) * product_sides<TRANSPOSES_A, TRANSPOSES_B>::VALUES, kernels, product);
}

template <typename Value, typename Result>
static group_product<Value, Result> product_of(const exec_matmul *shape, const exec_groups *groups,
                                               const void *a, const void *b, void *c)
{
    return {*groups,
            shape->rows,
            shape->columns,
            shape->inner,
            shape->transposes_a,
            shape->transposes_b,
            shape->accumulates,
            (const Value *)a,
            (const Value *)b,
            (Result *)c};
}

template <typename Value, typename Result>
static void multiply_plain(exec_kernels *kernels, const group_product<Value, Result> &product)
{
    launch(multiply_groups<Value, Result>, product_grid(product, PLAIN_COLUMNS), BLOCK_LANES, 0,
           kernels, product);
}

template <typename Result>
static void multiply_bf16(exec_kernels *kernels, const group_product<bf16, Result> &product)
{
    const int side = product.transposes_a ? product.rows : product.inner;
    const bool both = product.transposes_a && product.transposes_b;
    if (side % 8 != 0 || product.columns % 8 != 0 || both || !is_wide(product.a) ||
        !is_wide(product.b)) {
        return multiply_plain(kernels, product);
    }
    if (product.transposes_a) return multiply_wide<true, false>(kernels, product);
    if (product.transposes_b) return multiply_wide<false, true>(kernels, product);
    return multiply_wide<false, false>(kernels, product);
}

void exec_cuda_group_matmul(exec_kernels *kernels, const exec_matmul *shape,
                            const exec_groups *groups, const void *a, const void *b, void *c)
{
    if (!is_bf16(kernels)) {
        return multiply_plain(kernels, product_of<float, float>(shape, groups, a, b, c));
    }
    if (shape->is_float) {
        return multiply_bf16(kernels, product_of<bf16, float>(shape, groups, a, b, c));
    }
    return multiply_bf16(kernels, product_of<bf16, bf16>(shape, groups, a, b, c));
}
