// Rotary positions, grouped queries and SwiGLU: a block for each row.

#include "exec/cuda/kernels_cuda.cuh"

template <typename Value>
__global__ void swiglu(row_limit limit, const Value *input, int width, Value *output)
{
    if (limit.excludes(blockIdx.x)) return;
    const Value *gate = input + (size_t)blockIdx.x * 2 * width;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        const float x = to_float(gate[column]);
        output[(size_t)blockIdx.x * width + column] =
            from_float<Value>(x / (1.0f + expf(-x)) * to_float(gate[width + column]));
    }
}

void exec_cuda_swiglu(exec_kernels *kernels, const void *input, int rows, int width, void *output)
{
    launch_either(swiglu<bf16>, swiglu<float>, rows, 0, kernels, limit_of(kernels), input, width,
                  output);
}

template <typename Value>
__global__ void swiglu_input(row_limit limit, const Value *input, const Value *output_gradient,
                             int width, Value *input_gradient)
{
    if (limit.excludes(blockIdx.x)) return;
    const Value *gate = input + (size_t)blockIdx.x * 2 * width;
    Value *to = input_gradient + (size_t)blockIdx.x * 2 * width;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        const float x = to_float(gate[column]);
        const float s = 1.0f / (1.0f + expf(-x));
        const float given = to_float(output_gradient[(size_t)blockIdx.x * width + column]);
        const float up = to_float(gate[width + column]);
        to[column] = from_float<Value>(given * up * (s * (1.0f + x * (1.0f - s))));
        to[width + column] = from_float<Value>(given * (x * s));
    }
}

void exec_cuda_swiglu_input(exec_kernels *kernels, const void *input, const void *output_gradient,
                            int rows, int width, void *input_gradient)
{
    launch_either(swiglu_input<bf16>, swiglu_input<float>, rows, 0, kernels, limit_of(kernels),
                  input, output_gradient, width, input_gradient);
}

/// The angles of the block's row; nullptr: it is not rotated.
__device__ inline const float *rotation_of(const exec_heads &heads)
{
    if (heads.rotation == nullptr) return nullptr;
    const int row = heads.row != nullptr ? heads.row[blockIdx.x] : (int)blockIdx.x;
    return heads.rotation + (size_t)(row % heads.sequence_length) * heads.head_width;
}

/// Element of a head whose elements `own` and, half a head away, `other` are rotated together.
/// @param sign 1, or -1: back
__device__ inline float rotated(const float *rotation, int element, int head_width, float own,
                                float other, float sign)
{
    const int half = head_width / 2;
    const int pair = element < half ? element : element - half;
    const float cosine = rotation[2 * pair];
    const float sine = sign * rotation[2 * pair + 1];
    return element < half ? own * cosine - other * sine : own * cosine + other * sine;
}

__device__ inline int partner_of(int element, int head_width)
{
    const int half = head_width / 2;
    return element < half ? element + half : element - half;
}

template <typename Value>
__global__ void spread_heads(row_limit limit, exec_heads heads, const Value *from, Value *qkv)
{
    if (limit.excludes(blockIdx.x)) return;
    const int width = heads.head_width;
    const int group = heads.head_count / heads.kv_head_count;
    const float *rotation = rotation_of(heads);
    const Value *compact =
        from + (size_t)blockIdx.x * (heads.head_count + 2 * heads.kv_head_count) * width;
    Value *to = qkv + (size_t)blockIdx.x * 3 * heads.head_count * width;
    for (int at = threadIdx.x; at < 3 * heads.head_count * width; at += BLOCK_LANES) {
        const int head = at / width, element = at % width;
        const int shared = heads.head_count + (head - heads.head_count) / group;
        const Value *source = compact + (head < heads.head_count ? head : shared) * width;
        float value = to_float(source[element]);
        if (rotation != nullptr && head < 2 * heads.head_count) {
            const float other = to_float(source[partner_of(element, width)]);
            value = rotated(rotation, element, width, value, other, 1.0f);
        }
        to[at] = from_float<Value>(value);
    }
}

void exec_cuda_spread_heads(exec_kernels *kernels, const exec_heads *heads, const void *from,
                            int rows, void *qkv)
{
    launch_either(spread_heads<bf16>, spread_heads<float>, rows, 0, kernels, limit_of(kernels),
                  *heads, from, qkv);
}

/// The sum over the heads from `first` of an element.
template <typename Value>
__device__ inline float sum_of_heads(const Value *first, int heads, int width, int element)
{
    float sum = 0.0f;
    for (int head = 0; head < heads; head++) {
        sum += to_float(first[head * width + element]);
    }
    return sum;
}

template <typename Value>
__global__ void spread_heads_input(row_limit limit, exec_heads heads, const Value *qkv_gradient,
                                   Value *gradient)
{
    if (limit.excludes(blockIdx.x)) return;
    const int width = heads.head_width;
    const int group = heads.head_count / heads.kv_head_count;
    const int head_count = heads.head_count + 2 * heads.kv_head_count;
    const float *rotation = rotation_of(heads);
    const Value *from = qkv_gradient + (size_t)blockIdx.x * 3 * heads.head_count * width;
    Value *to = gradient + (size_t)blockIdx.x * head_count * width;
    for (int at = threadIdx.x; at < head_count * width; at += BLOCK_LANES) {
        const int head = at / width, element = at % width;
        const bool is_query = head < heads.head_count;
        const int served = is_query ? 1 : group;
        const int first = is_query ? head : heads.head_count + (head - heads.head_count) * group;
        const Value *source = from + (size_t)first * width;
        float value = sum_of_heads(source, served, width, element);
        if (rotation != nullptr && head < heads.head_count + heads.kv_head_count) {
            const float other = sum_of_heads(source, served, width, partner_of(element, width));
            value = rotated(rotation, element, width, value, other, -1.0f);
        }
        to[at] = from_float<Value>(value);
    }
}

void exec_cuda_spread_heads_input(exec_kernels *kernels, const exec_heads *heads,
                                  const void *qkv_gradient, int rows, void *gradient)
{
    launch_either(spread_heads_input<bf16>, spread_heads_input<float>, rows, 0, kernels,
                  limit_of(kernels), *heads, qkv_gradient, gradient);
}
