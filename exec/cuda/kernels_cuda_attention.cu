// Attention over lists of key blocks, in fp32 arithmetic without matrix units: the mode that is
// compared with the cpu, and bf16 shapes that the matrix units' kernels do not take.
//
// A block of lanes holds its tiles in shared memory as floats. Backward runs twice over the scores,
// once by key blocks and once by query blocks, so that every sum has one owner and no atomics are
// needed: 7 instead of 5 products of tiles. Source of the recurrences: Dao et al., FlashAttention,
// NeurIPS 2022, algorithms 1 and 4.

#include "exec/cuda/kernels_cuda.cuh"
#include "exec/cuda/kernels_cuda_primitives.cuh"

enum { LANE_VALUES = EXEC_CUDA_TILE_VALUES / BLOCK_LANES };

/// Rows [first, first + count) of one head's queries, keys, values or outputs, in a matrix whose
/// rows are `stride` values apart, into a tile of rows that are `pitch` floats apart. Used by the
/// forward and by both backward passes.
template <typename Value>
__device__ void load_tile(const Value *matrix, int stride, const exec_cuda_block &rows, int width,
                          float *tile, int pitch)
{
    for (int at = threadIdx.x; at < rows.row_count * width; at += BLOCK_LANES) {
        const int row = at / width, column = at % width;
        tile[row * pitch + column] =
            to_float(matrix[(size_t)(rows.first_row + row) * stride + column]);
    }
}

/// Has each value that the lane owns of a block's rows worked on: work(part, row, column).
template <typename Work>
__device__ void for_own_values(const exec_cuda_block &own, int width, Work work)
{
#pragma unroll
    for (int part = 0; part < LANE_VALUES; part++) {
        const int at = part * BLOCK_LANES + (int)threadIdx.x;
        if (at >= own.row_count * width) break;
        work(part, at / width, at % width);
    }
}

__device__ inline float dot(const float *a, const float *b, int count)
{
    float sum = 0.0f;
    for (int index = 0; index < count; index++) {
        sum += a[index] * b[index];
    }
    return sum;
}

/// The sizes that every kernel here works with.
struct tile_sizes {
    int width, pitch, tile, score_pitch, qkv_stride, output_stride;
    float scale;

    __host__ __device__ explicit tile_sizes(const exec_cuda_lists &shape)
    {
        width = shape.head_width;
        pitch = width + 1; // lanes that read one column of several rows meet different banks
        tile = shape.block_rows * pitch;
        score_pitch = shape.block_rows + 1;
        qkv_stride = 3 * shape.head_count * width;
        output_stride = shape.head_count * width;
        scale = 1.0f / sqrtf((float)width);
    }
};

/// New largest score and sum of a row of scores, which become shares of the largest; what came
/// before counts times the result.
__device__ inline float soften_row(float *score, int count, float *largest, float *sum)
{
    float new_largest = *largest;
    for (int key = 0; key < count; key++) {
        new_largest = fmaxf(new_largest, score[key]);
    }
    const float factor = expf(*largest - new_largest);
    float new_sum = *sum * factor;
    for (int key = 0; key < count; key++) {
        score[key] = expf(score[key] - new_largest);
        new_sum += score[key];
    }
    *largest = new_largest;
    *sum = new_sum;
    return factor;
}

template <typename Value>
__global__ void attention_forward(exec_cuda_lists shape, const Value *qkv, Value *output,
                                  float *log_sum)
{
    const tile_sizes size(shape);
    float *query = launch_shared<float>(), *key = query + size.tile, *value = key + size.tile;
    float *score = value + size.tile;
    __shared__ float largest[EXEC_CUDA_BLOCK_ROWS], sum[EXEC_CUDA_BLOCK_ROWS],
        factor[EXEC_CUDA_BLOCK_ROWS];
    const int query_block = shape.block_count - 1 - (int)blockIdx.x, head = blockIdx.y;
    const exec_cuda_block own = shape.block[query_block];
    if (own.row_count == 0) return;
    const Value *of_head = qkv + head * size.width;
    load_tile(of_head, size.qkv_stride, own, size.width, query, size.pitch);
    if (threadIdx.x < EXEC_CUDA_BLOCK_ROWS) {
        largest[threadIdx.x] = -INFINITY;
        sum[threadIdx.x] = 0.0f;
    }
    float result[LANE_VALUES] = {};
    for (int entry = 0; entry < own.key_block_count; entry++) {
        const int key_block = shape.key_block[own.first_key_block + entry];
        const exec_cuda_block other = shape.block[key_block];
        __syncthreads(); // the tiles before have been used
        load_tile(of_head + size.output_stride, size.qkv_stride, other, size.width, key,
                  size.pitch);
        load_tile(of_head + 2 * size.output_stride, size.qkv_stride, other, size.width, value,
                  size.pitch);
        __syncthreads();
        for (int at = threadIdx.x; at < own.row_count * other.row_count; at += BLOCK_LANES) {
            const int row = at / other.row_count, column = at % other.row_count;
            const bool is_met = attends(shape, own.first_row + row, other.first_row + column);
            score[row * size.score_pitch + column] =
                is_met ? size.scale *
                             dot(query + row * size.pitch, key + column * size.pitch, size.width)
                       : MASKED_SCORE;
        }
        __syncthreads();
        if ((int)threadIdx.x < own.row_count) {
            const int row = threadIdx.x;
            factor[row] = soften_row(score + row * size.score_pitch, other.row_count, &largest[row],
                                     &sum[row]);
        }
        __syncthreads();
        for_own_values(own, size.width, [&](int part, int row, int column) {
            result[part] *= factor[row];
            for (int other_row = 0; other_row < other.row_count; other_row++) {
                result[part] += score[row * size.score_pitch + other_row] *
                                value[other_row * size.pitch + column];
            }
        });
    }
    for_own_values(own, size.width, [&](int part, int row, int column) {
        output[(size_t)(own.first_row + row) * size.output_stride + head * size.width + column] =
            from_float<Value>(result[part] / sum[row]);
    });
    if ((int)threadIdx.x < own.row_count) {
        log_sum[(size_t)(own.first_row + threadIdx.x) * shape.head_count + head] =
            largest[threadIdx.x] + logf(sum[threadIdx.x]);
    }
}

static size_t forward_bytes(const exec_cuda_lists *shape)
{
    const tile_sizes size(*shape);
    return sizeof(float) * (size_t)(3 * size.tile + shape->block_rows * size.score_pitch);
}

/// row_dot[row][head] = the sum of output * output_gradient, one warp each.
template <typename Value>
__global__ void row_output_dots(row_limit limit, exec_cuda_lists shape, const Value *output,
                                const Value *output_gradient, float *row_dot)
{
    const int pair = (int)(blockIdx.x * BLOCK_WARPS + threadIdx.x / WARP_LANES);
    if (pair >= limit.of(shape.row_count) * shape.head_count) return;
    const size_t begin = (size_t)pair * shape.head_width; // rows are dense: [row][head][width]
    float sum = 0.0f;
    for (int column = threadIdx.x % WARP_LANES; column < shape.head_width; column += WARP_LANES) {
        sum += to_float(output[begin + column]) * to_float(output_gradient[begin + column]);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP_LANES == 0) row_dot[pair] = sum;
}

/// The four tiles and two squares of scores that both backward passes use.
struct backward_tiles {
    float *query, *key, *value, *gradient, *share, *score_gradient;

    __device__ explicit backward_tiles(const exec_cuda_lists &shape)
    {
        const tile_sizes size(shape);
        query = launch_shared<float>();
        key = query + size.tile;
        value = key + size.tile;
        gradient = value + size.tile;
        share = gradient + size.tile;
        score_gradient = share + shape.block_rows * size.score_pitch;
    }
};

static size_t backward_bytes(const exec_cuda_lists *shape)
{
    const tile_sizes size(*shape);
    return sizeof(float) * (size_t)(4 * size.tile + 2 * shape->block_rows * size.score_pitch);
}

/// Shares and gradients of the scores of one pair of blocks, all lanes together: what forward had,
/// and what its output's gradient makes of it.
__device__ void backward_scores(const exec_cuda_lists &shape, const backward_tiles &tiles,
                                int query_block, int key_block, int head, const float *log_sum,
                                const float *row_dot)
{
    const tile_sizes size(shape);
    const exec_cuda_block queries = shape.block[query_block], keys = shape.block[key_block];
    for (int at = threadIdx.x; at < queries.row_count * keys.row_count; at += BLOCK_LANES) {
        const int row = at / keys.row_count, column = at % keys.row_count;
        const size_t pair = (size_t)(queries.first_row + row) * shape.head_count + head;
        const bool is_met = attends(shape, queries.first_row + row, keys.first_row + column);
        const float *of_query = tiles.query + row * size.pitch;
        const float *of_gradient = tiles.gradient + row * size.pitch;
        const float score = size.scale * dot(of_query, tiles.key + column * size.pitch, size.width);
        const float share = is_met ? expf(score - log_sum[pair]) : 0.0f;
        const float slope = dot(of_gradient, tiles.value + column * size.pitch, size.width);
        tiles.share[row * size.score_pitch + column] = share;
        tiles.score_gradient[row * size.score_pitch + column] =
            share * (slope - row_dot[pair]) * size.scale;
    }
}

template <typename Value>
__global__ void key_value_gradients(exec_cuda_lists shape, const Value *qkv, const float *log_sum,
                                    const Value *output_gradient, const float *row_dot,
                                    Value *qkv_gradient)
{
    const tile_sizes size(shape);
    const backward_tiles tiles(shape);
    const int key_block = blockIdx.x, head = blockIdx.y;
    const exec_cuda_block own = shape.block[key_block];
    if (own.row_count == 0) return;
    const Value *of_head = qkv + head * size.width;
    load_tile(of_head + size.output_stride, size.qkv_stride, own, size.width, tiles.key,
              size.pitch);
    load_tile(of_head + 2 * size.output_stride, size.qkv_stride, own, size.width, tiles.value,
              size.pitch);
    float key_gradient[LANE_VALUES] = {}, value_gradient[LANE_VALUES] = {};
    for (int entry = 0; entry < own.query_block_count; entry++) {
        const int query_block = shape.query_block[own.first_query_block + entry];
        const exec_cuda_block other = shape.block[query_block];
        __syncthreads();
        load_tile(of_head, size.qkv_stride, other, size.width, tiles.query, size.pitch);
        load_tile(output_gradient + head * size.width, size.output_stride, other, size.width,
                  tiles.gradient, size.pitch);
        __syncthreads();
        backward_scores(shape, tiles, query_block, key_block, head, log_sum, row_dot);
        __syncthreads();
        for_own_values(own, size.width, [&](int part, int row, int column) {
            for (int query = 0; query < other.row_count; query++) {
                const int score = query * size.score_pitch + row;
                const int value = query * size.pitch + column;
                key_gradient[part] += tiles.score_gradient[score] * tiles.query[value];
                value_gradient[part] += tiles.share[score] * tiles.gradient[value];
            }
        });
    }
    for_own_values(own, size.width, [&](int part, int row, int column) {
        Value *result = qkv_gradient + (size_t)(own.first_row + row) * size.qkv_stride +
                        head * size.width + column;
        result[size.output_stride] = from_float<Value>(key_gradient[part]);
        result[2 * size.output_stride] = from_float<Value>(value_gradient[part]);
    });
}

template <typename Value>
__global__ void query_gradients(exec_cuda_lists shape, const Value *qkv, const float *log_sum,
                                const Value *output_gradient, const float *row_dot,
                                Value *qkv_gradient)
{
    const tile_sizes size(shape);
    const backward_tiles tiles(shape);
    const int query_block = shape.block_count - 1 - (int)blockIdx.x, head = blockIdx.y;
    const exec_cuda_block own = shape.block[query_block];
    if (own.row_count == 0) return;
    const Value *of_head = qkv + head * size.width;
    load_tile(of_head, size.qkv_stride, own, size.width, tiles.query, size.pitch);
    load_tile(output_gradient + head * size.width, size.output_stride, own, size.width,
              tiles.gradient, size.pitch);
    float query_gradient[LANE_VALUES] = {};
    for (int entry = 0; entry < own.key_block_count; entry++) {
        const int key_block = shape.key_block[own.first_key_block + entry];
        const exec_cuda_block other = shape.block[key_block];
        __syncthreads();
        load_tile(of_head + size.output_stride, size.qkv_stride, other, size.width, tiles.key,
                  size.pitch);
        load_tile(of_head + 2 * size.output_stride, size.qkv_stride, other, size.width, tiles.value,
                  size.pitch);
        __syncthreads();
        backward_scores(shape, tiles, query_block, key_block, head, log_sum, row_dot);
        __syncthreads();
        for_own_values(own, size.width, [&](int part, int row, int column) {
            for (int key = 0; key < other.row_count; key++) {
                query_gradient[part] += tiles.score_gradient[row * size.score_pitch + key] *
                                        tiles.key[key * size.pitch + column];
            }
        });
    }
    for_own_values(own, size.width, [&](int part, int row, int column) {
        qkv_gradient[(size_t)(own.first_row + row) * size.qkv_stride + head * size.width + column] =
            from_float<Value>(query_gradient[part]);
    });
}

static dim3 grid_of(const exec_cuda_lists *shape)
{
    return dim3(shape->block_count, shape->head_count);
}

void exec_cuda_attention(exec_kernels *kernels, const exec_attention *asked, const void *qkv,
                         void *output, float *log_sum)
{
    exec_cuda_lists shape;
    if (!exec_cuda_find_lists(kernels, asked, &shape)) return;
    if (is_bf16(kernels) && exec_cuda_attention_mma_takes(&shape)) {
        return exec_cuda_attention_mma_forward(kernels, &shape, qkv, output, log_sum);
    }
    launch_either(attention_forward<bf16>, attention_forward<float>, grid_of(&shape),
                  forward_bytes(&shape), kernels, shape, qkv, output, log_sum);
}

void exec_cuda_attention_input(exec_kernels *kernels, const exec_attention *asked, const void *qkv,
                               const void *output, const float *log_sum,
                               const void *output_gradient, void *qkv_gradient)
{
    exec_cuda_lists shape;
    if (!exec_cuda_find_lists(kernels, asked, &shape)) return;
    const int pairs = shape.row_count * shape.head_count;
    float *row_dot = (float *)exec_cuda_scratch(kernels, (size_t)pairs * sizeof(float));
    if (row_dot == nullptr) return;
    launch_either(row_output_dots<bf16>, row_output_dots<float>, warp_grid(pairs), 0, kernels,
                  limit_of(kernels), shape, output, output_gradient, row_dot);
    if (is_bf16(kernels) && exec_cuda_attention_mma_takes(&shape)) {
        return exec_cuda_attention_mma_backward(kernels, &shape, qkv, log_sum, output_gradient,
                                                row_dot, qkv_gradient);
    }
    const size_t bytes = backward_bytes(&shape);
    launch_either(key_value_gradients<bf16>, key_value_gradients<float>, grid_of(&shape), bytes,
                  kernels, shape, qkv, log_sum, output_gradient, row_dot, qkv_gradient);
    launch_either(query_gradients<bf16>, query_gradients<float>, grid_of(&shape), bytes, kernels,
                  shape, qkv, log_sum, output_gradient, row_dot, qkv_gradient);
}
