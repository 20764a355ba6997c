// Kernels that treat every row alone: LayerNorm, loss, embedding, and the rows that a mechanism
// chooses.

#include "exec/cuda/kernels_cuda.cuh"

template <typename Value>
__global__ void add_bias(row_limit limit, Value *values, const Value *bias, int columns)
{
    if (limit.excludes(blockIdx.x)) return;
    Value *row = values + (size_t)blockIdx.x * columns;
    for (int column = threadIdx.x; column < columns; column += BLOCK_LANES) {
        row[column] = from_float<Value>(to_float(row[column]) + to_float(bias[column]));
    }
}

void exec_cuda_add_bias(exec_kernels *kernels, void *values, const void *bias, int rows,
                        int columns)
{
    launch_either(add_bias<bf16>, add_bias<float>, rows, 0, kernels, limit_of(kernels), values,
                  bias, columns);
}

template <typename Value>
__global__ void layer_norm(row_limit limit, const Value *input, const Value *weight,
                           const Value *bias, int width, Value *output, float *mean, float *rstd)
{
    if (limit.excludes(blockIdx.x)) return;
    const size_t begin = (size_t)blockIdx.x * width;
    float sum = 0.0f;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        sum += to_float(input[begin + column]);
    }
    const float center = mean == nullptr ? 0.0f : block_sum(sum) / (float)width;
    float squares = 0.0f;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        const float distance = to_float(input[begin + column]) - center;
        squares += distance * distance;
    }
    const float inverse = 1.0f / sqrtf(block_sum(squares) / (float)width + 1e-5f);
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        const float normal = (to_float(input[begin + column]) - center) * inverse;
        const float shift = bias == nullptr ? 0.0f : to_float(bias[column]);
        output[begin + column] = from_float<Value>(normal * to_float(weight[column]) + shift);
    }
    if (threadIdx.x == 0) {
        if (mean != nullptr) mean[blockIdx.x] = center;
        rstd[blockIdx.x] = inverse;
    }
}

void exec_cuda_layer_norm(exec_kernels *kernels, const void *input, const void *weight,
                          const void *bias, int rows, int width, void *output, float *mean,
                          float *rstd)
{
    launch_either(layer_norm<bf16>, layer_norm<float>, rows, 0, kernels, limit_of(kernels), input,
                  weight, bias, width, output, mean, rstd);
}

/// The gradient that comes in may lie in the same memory as the one that goes out: all of a row is
/// read for the two sums before any of it is written, and then each lane reads before it writes.
template <typename Value>
__global__ void layer_norm_input(row_limit limit, const Value *output_gradient, const Value *input,
                                 const Value *weight, const float *mean, const float *rstd,
                                 int width, Value *input_gradient)
{
    if (limit.excludes(blockIdx.x)) return;
    const size_t begin = (size_t)blockIdx.x * width;
    const float center = mean == nullptr ? 0.0f : mean[blockIdx.x], inverse = rstd[blockIdx.x];
    float sum = 0.0f, sum_with_normal = 0.0f;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        const float slope = to_float(output_gradient[begin + column]) * to_float(weight[column]);
        sum += slope;
        sum_with_normal += slope * (to_float(input[begin + column]) - center) * inverse;
    }
    const float slope_mean = mean == nullptr ? 0.0f : block_sum(sum) / (float)width;
    const float normal_mean = block_sum(sum_with_normal) / (float)width;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        const float slope = to_float(output_gradient[begin + column]) * to_float(weight[column]);
        const float normal = (to_float(input[begin + column]) - center) * inverse;
        const float gradient = inverse * (slope - slope_mean - normal * normal_mean);
        input_gradient[begin + column] =
            from_float<Value>(to_float(input_gradient[begin + column]) + gradient);
    }
}

void exec_cuda_layer_norm_input(exec_kernels *kernels, const void *output_gradient,
                                const void *input, const void *weight, const float *mean,
                                const float *rstd, int rows, int width, void *input_gradient)
{
    launch_either(layer_norm_input<bf16>, layer_norm_input<float>, rows, 0, kernels,
                  limit_of(kernels), output_gradient, input, weight, mean, rstd, width,
                  input_gradient);
}

/// Adds a number to those of which the largest two are known.
__device__ inline void keep_two_largest(float value, float *largest, float *second)
{
    *second = fmaxf(*second, fminf(*largest, value));
    *largest = fmaxf(*largest, value);
}

/// The largest of a row less the second largest, on all lanes of its warp.
template <typename Value> __device__ inline float lead_of_largest(const Value *row, int classes)
{
    float largest = -INFINITY, second = -INFINITY;
    for (int c = warp_lane(); c < classes; c += WARP_LANES) {
        keep_two_largest(to_float(row[c]), &largest, &second);
    }
    for (int distance = WARP_LANES / 2; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(WHOLE_WARP, largest, distance);
        second = fmaxf(second, __shfl_xor_sync(WHOLE_WARP, second, distance));
        keep_two_largest(other, &largest, &second);
    }
    return largest - second;
}

/// One warp per row. Logits and their gradient may share memory: the warp has read all of a row
/// before it writes.
template <typename Value>
__global__ void cross_entropy(row_limit limit, const Value *logits, const int *target, int rows,
                              int classes, float scale, float *loss, float *confidence,
                              Value *logits_gradient)
{
    const int row = warp_row();
    if (row >= limit.of(rows)) return;
    const Value *logit = logits + (size_t)row * classes;
    float largest = -INFINITY;
    for (int c = warp_lane(); c < classes; c += WARP_LANES) {
        largest = fmaxf(largest, to_float(logit[c]));
    }
    largest = warp_max(largest);
    const float of_target = to_float(logit[target[row]]);
    float sum = 0.0f;
    for (int c = warp_lane(); c < classes; c += WARP_LANES) {
        sum += expf(to_float(logit[c]) - largest);
    }
    sum = warp_sum(sum);
    if (warp_lane() == 0) loss[row] = logf(sum) + largest - of_target;
    if (confidence != nullptr) {
        const float lead = lead_of_largest(logit, classes);
        if (warp_lane() == 0) {
            confidence[2 * (size_t)row] = (1.0f - expf(-lead)) / sum;
            confidence[2 * (size_t)row + 1] = 1.0f / sum;
        }
    }
    __syncwarp();
    for (int c = warp_lane(); c < classes; c += WARP_LANES) {
        const float share = expf(to_float(logit[c]) - largest) / sum;
        const float one = c == target[row] ? 1.0f : 0.0f;
        logits_gradient[(size_t)row * classes + c] = from_float<Value>((share - one) * scale);
    }
}

void exec_cuda_cross_entropy(exec_kernels *kernels, const void *logits, const int *target, int rows,
                             int classes, float scale, float *loss, float *confidence,
                             void *logits_gradient)
{
    launch_either(cross_entropy<bf16>, cross_entropy<float>, warp_grid(rows), 0, kernels,
                  limit_of(kernels), logits, target, rows, classes, scale, loss, confidence,
                  logits_gradient);
}

template <typename Value>
__global__ void embed(const int *token, const int *position, const Value *token_table,
                      const Value *position_table, int width, Value *output)
{
    const size_t row = blockIdx.x;
    const Value *of_token = token_table + (size_t)token[row] * width;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        float value = to_float(of_token[column]);
        if (position_table != nullptr) {
            value += to_float(position_table[(size_t)position[row] * width + column]);
        }
        output[row * width + column] = from_float<Value>(value);
    }
}

void exec_cuda_embed(exec_kernels *kernels, const int *token, const int *position,
                     const void *token_table, const void *position_table, int rows, int width,
                     void *output)
{
    launch_either(embed<bf16>, embed<float>, rows, 0, kernels, token, position, token_table,
                  position_table, width, output);
}

/// Copies row to_row[block] (NULL: block) from row from_row[block] (NULL: block).
template <typename Value>
__global__ void move_rows(row_limit limit, const Value *from, const int *from_row, int width,
                          Value *to, const int *to_row)
{
    if (limit.excludes(blockIdx.x)) return;
    const size_t source = from_row != nullptr ? from_row[blockIdx.x] : blockIdx.x;
    const size_t target = to_row != nullptr ? to_row[blockIdx.x] : blockIdx.x;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        to[target * width + column] = from[source * width + column];
    }
}

static void move_rows_of(exec_kernels *kernels, const void *from, const int *from_row, int rows,
                         int width, void *to, const int *to_row)
{
    launch_either(move_rows<bf16>, move_rows<float>, rows, 0, kernels, limit_of(kernels), from,
                  from_row, width, to, to_row);
}

void exec_cuda_gather_rows(exec_kernels *kernels, const void *from, const int *row, int rows,
                           int width, void *to)
{
    return move_rows_of(kernels, from, row, rows, width, to, nullptr);
}

void exec_cuda_scatter_rows(exec_kernels *kernels, const void *from, const int *row, int rows,
                            int width, void *to)
{
    return move_rows_of(kernels, from, nullptr, rows, width, to, row);
}

template <typename Value>
__global__ void combine_rows(const Value *from, const int *first, const int *source,
                             const float *weight, float scale, int width, Value *to)
{
    const int row = blockIdx.x;
    const int begin = first != nullptr ? first[row] : row;
    const int end = first != nullptr ? first[row + 1] : row + 1;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        float sum = 0.0f;
        for (int entry = begin; entry < end; entry++) {
            const size_t other = source != nullptr ? source[entry] : entry;
            const float factor = weight != nullptr ? scale * weight[entry] : scale;
            sum += factor * to_float(from[other * width + column]);
        }
        Value *result = to + (size_t)row * width + column;
        *result = from_float<Value>(to_float(*result) + sum);
    }
}

void exec_cuda_combine_rows(exec_kernels *kernels, const void *from, const int *first,
                            const int *source, const float *weight, float scale, int rows,
                            int width, void *to)
{
    launch_either(combine_rows<bf16>, combine_rows<float>, rows, 0, kernels, from, first, source,
                  weight, scale, width, to);
}

template <typename Value>
__global__ void scale_rows(row_limit limit, const Value *from, const float *weight, int width,
                           Value *to)
{
    if (limit.excludes(blockIdx.x)) return;
    const size_t row = blockIdx.x;
    for (int column = threadIdx.x; column < width; column += BLOCK_LANES) {
        to[row * width + column] =
            from_float<Value>(weight[row] * to_float(from[row * width + column]));
    }
}

void exec_cuda_scale_rows(exec_kernels *kernels, const void *from, const float *weight, int rows,
                          int width, void *to)
{
    launch_either(scale_rows<bf16>, scale_rows<float>, rows, 0, kernels, limit_of(kernels), from,
                  weight, width, to);
}

template <typename Value>
__global__ void row_dots(row_limit limit, const Value *a, const int *row_a, const Value *b,
                         const int *row_b, int rows, int width, float *dot)
{
    const int row = warp_row();
    if (row >= limit.of(rows)) return;
    const Value *left = a + (size_t)(row_a != nullptr ? row_a[row] : row) * width;
    const Value *right = b + (size_t)(row_b != nullptr ? row_b[row] : row) * width;
    float sum = 0.0f;
    for (int column = warp_lane(); column < width; column += WARP_LANES) {
        sum += to_float(left[column]) * to_float(right[column]);
    }
    sum = warp_sum(sum);
    if (warp_lane() == 0) dot[row] = sum;
}

void exec_cuda_row_dots(exec_kernels *kernels, const void *a, const int *row_a, const void *b,
                        const int *row_b, int rows, int width, float *dot)
{
    launch_either(row_dots<bf16>, row_dots<float>, warp_grid(rows), 0, kernels, limit_of(kernels),
                  a, row_a, b, row_b, rows, width, dot);
}
