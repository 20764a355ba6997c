// Kernels that treat every element alone, and the sum of squares.

#include "exec/cuda/kernels_cuda.cuh"

/// Index of the lane's first element, and the distance to its next one.
__device__ inline size_t first_index()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ inline size_t index_stride()
{
    return (size_t)gridDim.x * blockDim.x;
}

template <int BYTES> struct alignas(BYTES) piece {
    unsigned char byte[BYTES];
};

template <int BYTES>
__global__ void copy_pieces(row_limit limit, piece<BYTES> *to, const piece<BYTES> *from,
                            size_t count)
{
    const size_t end = limit.of_all(count);
    for (size_t index = first_index(); index < end; index += index_stride()) {
        to[index] = from[index];
    }
}

static void copy_bytes(exec_kernels *kernels, const row_limit &limit, void *to, const void *from,
                       size_t bytes)
{
    if (is_wide(to) && is_wide(from) && fills_packs(limit, bytes, 16)) {
        return launch(copy_pieces<16>, grid_for(bytes / 16), BLOCK_LANES, 0, kernels, limit,
                      (piece<16> *)to, (const piece<16> *)from, bytes / 16);
    }
    return launch(copy_pieces<1>, grid_for(bytes), BLOCK_LANES, 0, kernels, limit, (piece<1> *)to,
                  (const piece<1> *)from, bytes);
}

void exec_cuda_copy(exec_kernels *kernels, void *to, const void *from, size_t bytes)
{
    return copy_bytes(kernels, limit_of(kernels), to, from, bytes);
}

__global__ void round_floats(bf16 *to, const float *from, size_t count)
{
    for (size_t index = first_index(); index < count; index += index_stride()) {
        to[index] = from_float<bf16>(from[index]);
    }
}

void exec_cuda_to_values(exec_kernels *kernels, const float *from, void *values, size_t count)
{
    if (!is_bf16(kernels)) {
        if (values != from) copy_bytes(kernels, row_limit{}, values, from, count * sizeof(float));
        return;
    }
    return launch(round_floats, grid_for(count), BLOCK_LANES, 0, kernels, (bf16 *)values, from,
                  count);
}

struct sum_of_both {
    static constexpr bool READS_TO = true;
    static __device__ float of(float to, float from)
    {
        return to + from;
    }
};

/// tanh of this is in the middle of the tanh form of GELU.
__device__ inline float gelu_inner(float x)
{
    return 0.7978845608028654f * (x + 0.044715f * x * x * x);
}

struct gelu_of_input {
    static constexpr bool READS_TO = false;
    static __device__ float of(float, float x)
    {
        return 0.5f * x * (1.0f + tanhf(gelu_inner(x)));
    }
};

struct gelu_gradient {
    static constexpr bool READS_TO = true;
    static __device__ float of(float gradient, float x)
    {
        const float t = tanhf(gelu_inner(x));
        const float inner_slope = 0.7978845608028654f * (1.0f + 3.0f * 0.044715f * x * x);
        return gradient * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner_slope);
    }
};

/// to[i] = Function::of(to[i], from[i]); packs counts packs.
template <typename Function, typename Value, int COUNT>
__global__ void combine_elements(row_limit limit, Value *to, const Value *from, size_t packs)
{
    const size_t end = limit.of_all(packs);
    typedef pack<Value, COUNT> piece;
    for (size_t index = first_index(); index < end; index += index_stride()) {
        piece a = {};
        if (Function::READS_TO) a = ((const piece *)to)[index];
        const piece b = ((const piece *)from)[index];
        piece result;
        for (int part = 0; part < COUNT; part++) {
            result.value[part] =
                from_float<Value>(Function::of(to_float(a.value[part]), to_float(b.value[part])));
        }
        ((piece *)to)[index] = result;
    }
}

template <typename Function, typename Value>
static void combine_all(exec_kernels *kernels, const row_limit &limit, void *to, const void *from,
                        size_t count)
{
    constexpr int WIDE = pack_values<Value>();
    if (is_wide(to) && is_wide(from) && fills_packs(limit, count, WIDE)) {
        return launch(combine_elements<Function, Value, WIDE>, grid_for(count / WIDE), BLOCK_LANES,
                      0, kernels, limit, (Value *)to, (const Value *)from, count / WIDE);
    }
    return launch(combine_elements<Function, Value, 1>, grid_for(count), BLOCK_LANES, 0, kernels,
                  limit, (Value *)to, (const Value *)from, count);
}

template <typename Function>
static void combine_kind(exec_kernels *kernels, void *to, const void *from, size_t count)
{
    const row_limit limit = limit_of(kernels);
    return is_bf16(kernels) ? combine_all<Function, bf16>(kernels, limit, to, from, count)
                            : combine_all<Function, float>(kernels, limit, to, from, count);
}

void exec_cuda_add(exec_kernels *kernels, void *to, const void *from, size_t count)
{
    return combine_kind<sum_of_both>(kernels, to, from, count);
}

void exec_cuda_add_floats(exec_kernels *kernels, float *to, const float *from, size_t count)
{
    return combine_all<sum_of_both, float>(kernels, row_limit{}, to, from, count);
}

void exec_cuda_gelu(exec_kernels *kernels, const void *input, void *output, size_t count)
{
    return combine_kind<gelu_of_input>(kernels, output, input, count);
}

void exec_cuda_gelu_input(exec_kernels *kernels, const void *input, void *gradient, size_t count)
{
    return combine_kind<gelu_gradient>(kernels, gradient, input, count);
}

/// The options of AdamW with what depends on the step worked out.
struct adamw_step {
    exec_adamw options;
    float correction1, correction2; // 1 - beta^step
};

template <typename Value>
__global__ void update(adamw_step step, float *master, float *moment1, float *moment2,
                       const float *gradient, const uint8_t *keep, Value *weights, size_t count)
{
    const exec_adamw &o = step.options;
    for (size_t index = first_index(); index < count; index += index_stride()) {
        const bool is_kept = keep == nullptr || keep[index] != 0;
        const float g = gradient[index] * o.gradient_scale;
        const float m = is_kept ? o.beta1 * moment1[index] + (1.0f - o.beta1) * g : 0.0f;
        const float v = is_kept ? o.beta2 * moment2[index] + (1.0f - o.beta2) * g * g : 0.0f;
        const float change = m / step.correction1 / (sqrtf(v / step.correction2) + o.epsilon);
        const float old = master[index];
        const float value =
            is_kept ? old - o.learning_rate * (change + o.weight_decay * old) : 0.0f;
        moment1[index] = m;
        moment2[index] = v;
        master[index] = value;
        weights[index] = from_float<Value>(value);
    }
}

void exec_cuda_adamw(exec_kernels *kernels, const exec_adamw *options, float *master,
                     float *moment1, float *moment2, const float *gradient, const uint8_t *keep,
                     void *weights, size_t count)
{
    const adamw_step step = {*options, (float)(1.0 - pow((double)options->beta1, options->step)),
                             (float)(1.0 - pow((double)options->beta2, options->step))};
    launch_either(update<bf16>, update<float>, grid_for(count), 0, kernels, step, master, moment1,
                  moment2, gradient, keep, weights, count);
}

__global__ void square_parts(const float *values, size_t count, double *partial)
{
    double sum = 0.0;
    for (size_t index = first_index(); index < count; index += index_stride()) {
        sum += (double)values[index] * (double)values[index];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

int exec_cuda_square_parts(exec_kernels *kernels, const float *values, size_t count,
                           double *partial)
{
    const int wanted = (int)grid_for(count);
    const int parts = wanted < EXEC_CUDA_SQUARE_PARTS_MAX ? wanted : EXEC_CUDA_SQUARE_PARTS_MAX;
    launch(square_parts, (unsigned)parts, BLOCK_LANES, 0, kernels, values, count, partial);
    return parts;
}

__global__ void mask(float *values, const uint8_t *keep, size_t count)
{
    const size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride) {
        if (keep[at] == 0) values[at] = 0.0f;
    }
}

void exec_cuda_mask(exec_kernels *kernels, float *values, const uint8_t *keep, size_t count)
{
    return launch(mask, grid_for(count), BLOCK_LANES, 0, kernels, values, keep, count);
}

void exec_cuda_fill_kernels(exec_kernel_table *table)
{
#define FILL(name) table->name = exec_cuda_##name;
    EXEC_CUDA_OPERATIONS(FILL)
}
