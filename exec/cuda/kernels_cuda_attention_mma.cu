// Attention over lists of key blocks on the matrix units: bf16 values, fp32 sums, blocks of 64
// rows.
//
// Four warps work on a block; each owns 16 rows of its square of scores, which never leaves the
// registers: what a product leaves is laid out as the next one wants its left side. The tiles of
// the other side come into shared memory one list entry ahead. Forward and both backward passes
// load tiles by one function. Recurrences and passes are those of kernels_cuda_attention.cu.

#include "exec/cuda/kernels_cuda_tiles.cuh"

enum { MMA_LANES = 128, TILE_ROWS = EXEC_CUDA_BLOCK_ROWS, WARP_ROWS = 16, HALF_COLUMNS = 32 };

static constexpr float LOG2_E = 1.4426950408889634f;

/// A tile in shared memory.
template <int WIDTH> struct tile_of {
    static constexpr int PITCH = TILE_PITCH<WIDTH>;
    static constexpr int VALUES = TILE_ROWS * PITCH;
    static constexpr size_t BYTES = sizeof(bf16) * VALUES;
};

/// Begins to load a block's rows of one head from a matrix whose rows are `stride` values apart;
/// rows that the block does not have become zeros.
template <int WIDTH>
__device__ void begin_tile(bf16 *tile, const bf16 *matrix, int stride, const exec_cuda_block &block)
{
    constexpr int PIECES = WIDTH / 8;
    const bf16 *first = matrix + (size_t)block.first_row * stride;
    for (int piece = threadIdx.x; piece < TILE_ROWS * PIECES; piece += MMA_LANES) {
        const int row = piece / PIECES, column = piece % PIECES * 8;
        bf16 *to = tile + row * tile_of<WIDTH>::PITCH + column;
        if (row < block.row_count) {
            copy_16_behind(to, first + (size_t)row * stride + column);
        } else {
            *(uint4 *)to = make_uint4(0, 0, 0, 0);
        }
    }
}

/// Two neighbouring results of 16 x 8 as the left side of a product.
__device__ inline void as_left(uint32_t (&part)[4], const float (&first)[4],
                               const float (&second)[4])
{
    part[0] = two_values(first[0], first[1]);
    part[1] = two_values(first[2], first[3]);
    part[2] = two_values(second[0], second[1]);
    part[3] = two_values(second[2], second[3]);
}

/// square [16 x 8 * TILES] = rows of a tile from left_row times rows of another from right_row,
/// transposed.
template <int WIDTH, int TILES>
__device__ void multiply_rows(float (&square)[TILES][4], const bf16 *left, int left_row,
                              const bf16 *right, int right_row)
{
#pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
        square[tile][0] = square[tile][1] = square[tile][2] = square[tile][3] = 0.0f;
    }
#pragma unroll
    for (int column = 0; column < WIDTH; column += 16) {
        uint32_t a[4];
        load_left<WIDTH>(a, left, left_row, column);
#pragma unroll
        for (int tile = 0; tile < TILES; tile += 2) {
            uint32_t b[4];
            load_right_rows<WIDTH>(b, right, right_row + tile * 8, column);
            multiply_add(square[tile], a, b[0], b[1]);
            multiply_add(square[tile + 1], a, b[2], b[3]);
        }
    }
}

/// result [16 x WIDTH] += square [16 x 8 * TILES] times rows of a tile from right_row.
template <int WIDTH, int TILES>
__device__ void add_product(float (&result)[WIDTH / 8][4], const float (&square)[TILES][4],
                            const bf16 *right, int right_row)
{
#pragma unroll
    for (int tile = 0; tile < TILES; tile += 2) {
        uint32_t a[4];
        as_left(a, square[tile], square[tile + 1]);
#pragma unroll
        for (int column = 0; column < WIDTH; column += 16) {
            uint32_t b[4];
            load_right_columns<WIDTH>(b, right, right_row + tile * 8, column);
            multiply_add(result[column / 8], a, b[0], b[1]);
            multiply_add(result[column / 8 + 1], a, b[2], b[3]);
        }
    }
}

/// Stores [16 x WIDTH] as rows from `row` of the block, each number times the factor of its half.
template <int WIDTH>
__device__ void store_rows(bf16 *matrix, int stride, const exec_cuda_block &block, int row,
                           const float (&result)[WIDTH / 8][4], float upper, float lower)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int own = row + result_row(2 * half);
        if (own >= block.row_count) continue;
        const float factor = half == 0 ? upper : lower;
        bf16 *to = matrix + (size_t)(block.first_row + own) * stride;
#pragma unroll
        for (int tile = 0; tile < WIDTH / 8; tile++) {
            *(uint32_t *)(to + tile * 8 + result_column(0)) =
                two_values(result[tile][2 * half] * factor, result[tile][2 * half + 1] * factor);
        }
    }
}

__device__ inline float quad_max(float value)
{
    value = fmaxf(value, __shfl_xor_sync(WHOLE_WARP, value, 1));
    return fmaxf(value, __shfl_xor_sync(WHOLE_WARP, value, 2));
}

__device__ inline float quad_sum(float value)
{
    value += __shfl_xor_sync(WHOLE_WARP, value, 1);
    return value + __shfl_xor_sync(WHOLE_WARP, value, 2);
}

/// Scores of one half of a warp's rows become shares of the largest so far, in powers of two; the
/// results so far are scaled to it.
template <int WIDTH>
__device__ void soften(float (&score)[TILE_ROWS / 8][4], int half, float scale, float *largest,
                       float *sum, float (&result)[WIDTH / 8][4])
{
    float new_largest = *largest;
#pragma unroll
    for (int tile = 0; tile < TILE_ROWS / 8; tile++) {
        new_largest =
            fmaxf(new_largest, fmaxf(score[tile][2 * half], score[tile][2 * half + 1]) * scale);
    }
    new_largest = quad_max(new_largest);
    const float factor = exp2f(*largest - new_largest);
    float new_sum = 0.0f;
#pragma unroll
    for (int tile = 0; tile < TILE_ROWS / 8; tile++) {
#pragma unroll
        for (int part = 2 * half; part < 2 * half + 2; part++) {
            score[tile][part] = exp2f(score[tile][part] * scale - new_largest);
            new_sum += score[tile][part];
        }
    }
#pragma unroll
    for (int tile = 0; tile < WIDTH / 8; tile++) {
        result[tile][2 * half] *= factor;
        result[tile][2 * half + 1] *= factor;
    }
    *largest = new_largest;
    *sum = *sum * factor + quad_sum(new_sum);
}

/// The first row that a row of a block of sorted rows attends to; 0 of rows that are not there.
__device__ inline int first_key_of(const exec_cuda_lists &shape, const exec_cuda_block &block,
                                   int row)
{
    return row < block.row_count ? shape.first_key[block.first_row + row] : 0;
}

/// Shared memory: the queries' tile, and two pairs of tiles of keys and values.
template <int WIDTH, bool IS_SORTED>
__global__ void __launch_bounds__(MMA_LANES)
    forward_mma(exec_cuda_lists shape, const bf16 *qkv, bf16 *output, float *log_sum)
{
    typedef tile_of<WIDTH> tile;
    bf16 *query = launch_shared<bf16>(), *other_tiles = query + tile::VALUES;
    const int query_block = shape.block_count - 1 - (int)blockIdx.x, head = blockIdx.y;
    const int output_stride = shape.head_count * WIDTH, stride = 3 * output_stride;
    const int warp_row = (int)threadIdx.x / WARP_LANES * WARP_ROWS;
    const exec_cuda_block own = shape.block[query_block];
    if (own.row_count == 0) return;
    const int *list = shape.key_block + own.first_key_block;
    const bf16 *of_head = qkv + head * WIDTH;
    const float scale = rsqrtf((float)WIDTH) * LOG2_E;

    begin_tile<WIDTH>(query, of_head, stride, own);
    begin_tile<WIDTH>(other_tiles, of_head + output_stride, stride, shape.block[list[0]]);
    begin_tile<WIDTH>(other_tiles + tile::VALUES, of_head + 2 * output_stride, stride,
                      shape.block[list[0]]);
    close_copies();
    int first_key[2] = {};
    for (int half = 0; IS_SORTED && half < 2; half++) {
        first_key[half] = first_key_of(shape, own, warp_row + result_row(2 * half));
    }
    float result[WIDTH / 8][4] = {};
    float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
    for (int entry = 0; entry < own.key_block_count; entry++) {
        bf16 *key = other_tiles + entry % 2 * 2 * tile::VALUES, *value = key + tile::VALUES;
        if (entry + 1 < own.key_block_count) {
            const exec_cuda_block next = shape.block[list[entry + 1]];
            bf16 *next_key = other_tiles + (entry + 1) % 2 * 2 * tile::VALUES;
            begin_tile<WIDTH>(next_key, of_head + output_stride, stride, next);
            begin_tile<WIDTH>(next_key + tile::VALUES, of_head + 2 * output_stride, stride, next);
        }
        close_copies();
        wait_for_copies<1>();
        __syncthreads();
        float score[TILE_ROWS / 8][4];
        multiply_rows<WIDTH, TILE_ROWS / 8>(score, query, warp_row, key, 0);
        if (IS_SORTED || list[entry] == query_block) {
            const int first_row = IS_SORTED ? shape.block[list[entry]].first_row : own.first_row;
#pragma unroll
            for (int at = 0; at < TILE_ROWS / 2; at++) {
                const int other = first_row + at / 4 * 8 + result_column(at % 4);
                const int row = own.first_row + warp_row + result_row(at % 4);
                const bool is_before = IS_SORTED && other < first_key[at % 4 / 2];
                if (other > row || is_before) score[at / 4][at % 4] = MASKED_SCORE;
            }
        }
        soften<WIDTH>(score, 0, scale, &largest[0], &sum[0], result);
        soften<WIDTH>(score, 1, scale, &largest[1], &sum[1], result);
        add_product<WIDTH, TILE_ROWS / 8>(result, score, value, 0);
        __syncthreads(); // these tiles are overwritten in the round after the next
    }
    store_rows<WIDTH>(output + head * WIDTH, output_stride, own, warp_row, result, 1.0f / sum[0],
                      1.0f / sum[1]);
    for (int half = 0; half < 2; half++) {
        const int row = warp_row + result_row(2 * half);
        if (threadIdx.x % 4 != 0 || row >= own.row_count) continue;
        log_sum[(size_t)(own.first_row + row) * shape.head_count + head] =
            (largest[half] + log2f(sum[half])) / LOG2_E;
    }
}

/// Begins the tiles of one query block: queries, gradients of the outputs, and per row the
/// logarithm (in powers of two), the dot product and, of sorted rows, the first key. Rows that are
/// not there get shares of 0.
template <int WIDTH, bool IS_SORTED>
__device__ void begin_queries(const exec_cuda_lists &shape, const exec_cuda_block &block, int head,
                              const bf16 *qkv, const bf16 *output_gradient, const float *log_sum,
                              const float *row_dot, bf16 *query, bf16 *gradient, float *row_log,
                              float *row_sum, int *row_first)
{
    const int output_stride = shape.head_count * WIDTH;
    begin_tile<WIDTH>(query, qkv + head * WIDTH, 3 * output_stride, block);
    begin_tile<WIDTH>(gradient, output_gradient + head * WIDTH, output_stride, block);
    for (int row = threadIdx.x; row < TILE_ROWS; row += MMA_LANES) {
        const bool is_there = row < block.row_count;
        const size_t pair = (size_t)(block.first_row + row) * shape.head_count + head;
        row_log[row] = is_there ? log_sum[pair] * LOG2_E : INFINITY;
        row_sum[row] = is_there ? row_dot[pair] : 0.0f;
        if (IS_SORTED) row_first[row] = first_key_of(shape, block, row);
    }
}

/// One block of keys, over its query blocks. A warp owns 16 keys, and looks at 32 queries at a
/// time: the results for 128 columns fill half of its registers.
template <int WIDTH, bool IS_SORTED>
__global__ void __launch_bounds__(MMA_LANES)
    key_value_mma(exec_cuda_lists shape, const bf16 *qkv, const float *log_sum,
                  const bf16 *output_gradient, const float *row_dot, bf16 *qkv_gradient)
{
    typedef tile_of<WIDTH> tile;
    __shared__ float row_log[2][TILE_ROWS], row_sum[2][TILE_ROWS];
    __shared__ int row_first[2][TILE_ROWS];
    bf16 *key = launch_shared<bf16>(), *value = key + tile::VALUES;
    bf16 *other_tiles = value + tile::VALUES;
    const int key_block = blockIdx.x, head = blockIdx.y;
    const int output_stride = shape.head_count * WIDTH, stride = 3 * output_stride;
    const int warp_row = (int)threadIdx.x / WARP_LANES * WARP_ROWS;
    const exec_cuda_block own = shape.block[key_block];
    if (own.row_count == 0) return;
    const int *list = shape.query_block + own.first_query_block;
    const float scale = rsqrtf((float)WIDTH);

    begin_tile<WIDTH>(key, qkv + output_stride + head * WIDTH, stride, own);
    begin_tile<WIDTH>(value, qkv + 2 * output_stride + head * WIDTH, stride, own);
    begin_queries<WIDTH, IS_SORTED>(shape, shape.block[list[0]], head, qkv, output_gradient,
                                    log_sum, row_dot, other_tiles, other_tiles + tile::VALUES,
                                    row_log[0], row_sum[0], row_first[0]);
    close_copies();
    float key_gradient[WIDTH / 8][4] = {}, value_gradient[WIDTH / 8][4] = {};
    for (int entry = 0; entry < own.query_block_count; entry++) {
        const int side = entry % 2;
        const bf16 *query = other_tiles + side * 2 * tile::VALUES, *gradient = query + tile::VALUES;
        if (entry + 1 < own.query_block_count) {
            bf16 *next = other_tiles + (1 - side) * 2 * tile::VALUES;
            begin_queries<WIDTH, IS_SORTED>(shape, shape.block[list[entry + 1]], head, qkv,
                                            output_gradient, log_sum, row_dot, next,
                                            next + tile::VALUES, row_log[1 - side],
                                            row_sum[1 - side], row_first[1 - side]);
        }
        close_copies();
        wait_for_copies<1>();
        __syncthreads();
        const int first_row = shape.block[list[entry]].first_row;
#pragma unroll 1
        for (int first = 0; first < TILE_ROWS; first += HALF_COLUMNS) {
            float share[HALF_COLUMNS / 8][4], slope[HALF_COLUMNS / 8][4];
            multiply_rows<WIDTH, HALF_COLUMNS / 8>(share, key, warp_row, query, first);
            multiply_rows<WIDTH, HALF_COLUMNS / 8>(slope, value, warp_row, gradient, first);
#pragma unroll
            for (int at = 0; at < HALF_COLUMNS / 2; at++) {
                const int column = first + at / 4 * 8 + result_column(at % 4);
                const int row = own.first_row + warp_row + result_row(at % 4);
                const bool is_met =
                    row <= first_row + column && (!IS_SORTED || row >= row_first[side][column]);
                float &own_share = share[at / 4][at % 4], &own_slope = slope[at / 4][at % 4];
                own_share =
                    is_met ? exp2f(own_share * scale * LOG2_E - row_log[side][column]) : 0.0f;
                own_slope = own_share * (own_slope - row_sum[side][column]) * scale;
            }
            add_product<WIDTH, HALF_COLUMNS / 8>(value_gradient, share, gradient, first);
            add_product<WIDTH, HALF_COLUMNS / 8>(key_gradient, slope, query, first);
        }
        __syncthreads();
    }
    bf16 *of_head = qkv_gradient + head * WIDTH;
    store_rows<WIDTH>(of_head + output_stride, stride, own, warp_row, key_gradient, 1.0f, 1.0f);
    store_rows<WIDTH>(of_head + 2 * output_stride, stride, own, warp_row, value_gradient, 1.0f,
                      1.0f);
}

/// One block of queries, over its key blocks.
template <int WIDTH, bool IS_SORTED>
__global__ void __launch_bounds__(MMA_LANES)
    query_mma(exec_cuda_lists shape, const bf16 *qkv, const float *log_sum,
              const bf16 *output_gradient, const float *row_dot, bf16 *qkv_gradient)
{
    typedef tile_of<WIDTH> tile;
    __shared__ float row_log[TILE_ROWS], row_sum[TILE_ROWS];
    __shared__ int row_first[TILE_ROWS];
    bf16 *query = launch_shared<bf16>(), *gradient = query + tile::VALUES;
    bf16 *other_tiles = gradient + tile::VALUES;
    const int query_block = shape.block_count - 1 - (int)blockIdx.x, head = blockIdx.y;
    const int output_stride = shape.head_count * WIDTH, stride = 3 * output_stride;
    const int warp_row = (int)threadIdx.x / WARP_LANES * WARP_ROWS;
    const exec_cuda_block own = shape.block[query_block];
    if (own.row_count == 0) return;
    const int *list = shape.key_block + own.first_key_block;
    const bf16 *keys = qkv + output_stride + head * WIDTH, *values = keys + output_stride;
    const float scale = rsqrtf((float)WIDTH);

    begin_queries<WIDTH, IS_SORTED>(shape, own, head, qkv, output_gradient, log_sum, row_dot, query,
                                    gradient, row_log, row_sum, row_first);
    begin_tile<WIDTH>(other_tiles, keys, stride, shape.block[list[0]]);
    begin_tile<WIDTH>(other_tiles + tile::VALUES, values, stride, shape.block[list[0]]);
    close_copies();
    float query_gradient[WIDTH / 8][4] = {};
    for (int entry = 0; entry < own.key_block_count; entry++) {
        const bf16 *key = other_tiles + entry % 2 * 2 * tile::VALUES, *value = key + tile::VALUES;
        if (entry + 1 < own.key_block_count) {
            const exec_cuda_block next = shape.block[list[entry + 1]];
            bf16 *next_key = other_tiles + (entry + 1) % 2 * 2 * tile::VALUES;
            begin_tile<WIDTH>(next_key, keys, stride, next);
            begin_tile<WIDTH>(next_key + tile::VALUES, values, stride, next);
        }
        close_copies();
        wait_for_copies<1>();
        __syncthreads();
        const int first_row = shape.block[list[entry]].first_row;
#pragma unroll 1
        for (int first = 0; first < TILE_ROWS; first += HALF_COLUMNS) {
            float share[HALF_COLUMNS / 8][4], slope[HALF_COLUMNS / 8][4];
            multiply_rows<WIDTH, HALF_COLUMNS / 8>(share, query, warp_row, key, first);
            multiply_rows<WIDTH, HALF_COLUMNS / 8>(slope, gradient, warp_row, value, first);
#pragma unroll
            for (int at = 0; at < HALF_COLUMNS / 2; at++) {
                const int column = first + at / 4 * 8 + result_column(at % 4);
                const int row = warp_row + result_row(at % 4);
                const int key_row = first_row + column;
                const bool is_met =
                    key_row <= own.first_row + row && (!IS_SORTED || key_row >= row_first[row]);
                const float own_share =
                    is_met ? exp2f(share[at / 4][at % 4] * scale * LOG2_E - row_log[row]) : 0.0f;
                slope[at / 4][at % 4] = own_share * (slope[at / 4][at % 4] - row_sum[row]) * scale;
            }
            add_product<WIDTH, HALF_COLUMNS / 8>(query_gradient, slope, key, first);
        }
        __syncthreads();
    }
    store_rows<WIDTH>(qkv_gradient + head * WIDTH, stride, own, warp_row, query_gradient, 1.0f,
                      1.0f);
}

template <int WIDTH>
static void forward_of(exec_kernels *kernels, const exec_cuda_lists *shape, const void *qkv,
                       void *output, float *log_sum)
{
    const dim3 grid(shape->block_count, shape->head_count);
    const auto kernel =
        shape->first_key == nullptr ? forward_mma<WIDTH, false> : forward_mma<WIDTH, true>;
    return launch(kernel, grid, MMA_LANES, 5 * tile_of<WIDTH>::BYTES, kernels, *shape, qkv, output,
                  log_sum);
}

template <int WIDTH>
static void backward_of(exec_kernels *kernels, const exec_cuda_lists *shape, const void *qkv,
                        const float *log_sum, const void *output_gradient, const float *row_dot,
                        void *qkv_gradient)
{
    const dim3 grid(shape->block_count, shape->head_count);
    const size_t bytes = 6 * tile_of<WIDTH>::BYTES;
    const bool is_sorted = shape->first_key != nullptr;
    launch(is_sorted ? key_value_mma<WIDTH, true> : key_value_mma<WIDTH, false>, grid, MMA_LANES,
           bytes, kernels, *shape, qkv, log_sum, output_gradient, row_dot, qkv_gradient);
    launch(is_sorted ? query_mma<WIDTH, true> : query_mma<WIDTH, false>, grid, MMA_LANES, bytes,
           kernels, *shape, qkv, log_sum, output_gradient, row_dot, qkv_gradient);
}

bool exec_cuda_attention_mma_takes(const exec_cuda_lists *shape)
{
    const int width = shape->head_width;
    return shape->block_rows == TILE_ROWS && (width == 32 || width == 64 || width == 128);
}

void exec_cuda_attention_mma_forward(exec_kernels *kernels, const exec_cuda_lists *shape,
                                     const void *qkv, void *output, float *log_sum)
{
    switch (shape->head_width) {
    case 32:
        return forward_of<32>(kernels, shape, qkv, output, log_sum);
    case 64:
        return forward_of<64>(kernels, shape, qkv, output, log_sum);
    default:
        return forward_of<128>(kernels, shape, qkv, output, log_sum);
    }
}

void exec_cuda_attention_mma_backward(exec_kernels *kernels, const exec_cuda_lists *shape,
                                      const void *qkv, const float *log_sum,
                                      const void *output_gradient, const float *row_dot,
                                      void *qkv_gradient)
{
    switch (shape->head_width) {
    case 32:
        return backward_of<32>(kernels, shape, qkv, log_sum, output_gradient, row_dot,
                               qkv_gradient);
    case 64:
        return backward_of<64>(kernels, shape, qkv, log_sum, output_gradient, row_dot,
                               qkv_gradient);
    default:
        return backward_of<128>(kernels, shape, qkv, log_sum, output_gradient, row_dot,
                                qkv_gradient);
    }
}
