/// GELU, softmax and cross-entropy in plain C.
#include "exec/kernels/kernels_cpu_row.h"

#include <math.h>

// LayerNorm and RMSNorm in plain C.

static const float variance_floor = 1e-5F;

void exec_cpu_layer_norm(exec_kernels *kernels, const void *input, const void *weight,
                         const void *bias, int rows, int width, void *output, float *mean,
                         float *rstd)
{
    (void)kernels;
    const float *restrict weights = weight;
    const float *restrict biases = bias;
    for (int row = 0; row < rows; row++) {
        const float *restrict from = (const float *)input + (ptrdiff_t)row * width;
        float *restrict to = (float *)output + (ptrdiff_t)row * width;
        const float row_mean = mean == NULL ? 0 : exec_cpu_sum(from, width) / (float)width;
        for (int column = 0; column < width; column++) {
            to[column] = from[column] - row_mean;
        }
        const float variance = exec_cpu_dot(to, to, width) / (float)width;
        const float row_rstd = 1.0F / sqrtf(variance + variance_floor);
        for (int column = 0; column < width; column++) {
            const float bias_here = biases == NULL ? 0 : biases[column];
            to[column] = to[column] * row_rstd * weights[column] + bias_here;
        }
        if (mean != NULL) mean[row] = row_mean;
        rstd[row] = row_rstd;
    }
}

/// With n = (x - mean) * row_rstd and g = output gradient * weight, the gradient of x is
/// row_rstd * (g - mean(g) - n * mean(g * n)).
void exec_cpu_layer_norm_input(exec_kernels *kernels, const void *output_gradient,
                               const void *input, const void *weight, const float *mean,
                               const float *rstd, int rows, int width, void *input_gradient)
{
    float *scratch = exec_cpu_scratch((exec_cpu *)kernels, 2 * (size_t)width);
    float *restrict normal = scratch;
    float *restrict scaled = scratch + width;
    const float *restrict weights = weight;
    for (int row = 0; row < rows; row++) {
        const float *restrict from = (const float *)input + (ptrdiff_t)row * width;
        const float *restrict given = (const float *)output_gradient + (ptrdiff_t)row * width;
        float *restrict to = (float *)input_gradient + (ptrdiff_t)row * width;
        const float row_mean = mean == NULL ? 0 : mean[row];
        const float row_rstd = rstd[row];
        for (int column = 0; column < width; column++) {
            normal[column] = (from[column] - row_mean) * row_rstd;
            scaled[column] = given[column] * weights[column];
        }
        const float scaled_mean = mean == NULL ? 0 : exec_cpu_sum(scaled, width) / (float)width;
        const float product_mean = exec_cpu_dot(scaled, normal, width) / (float)width;
        for (int column = 0; column < width; column++) {
            to[column] += row_rstd * (scaled[column] - scaled_mean - normal[column] * product_mean);
        }
    }
}

void exec_cpu_layer_norm_weight(exec_kernels *kernels, const void *output_gradient,
                                const void *input, const float *mean, const float *rstd, int rows,
                                int width, float *dweight, float *dbias)
{
    (void)kernels;
    float *restrict weights = dweight;
    float *restrict biases = dbias;
    for (int row = 0; row < rows; row++) {
        const float *restrict from = (const float *)input + (ptrdiff_t)row * width;
        const float *restrict given = (const float *)output_gradient + (ptrdiff_t)row * width;
        const float row_mean = mean == NULL ? 0 : mean[row];
        const float row_rstd = rstd[row];
        for (int column = 0; column < width; column++) {
            weights[column] += given[column] * ((from[column] - row_mean) * row_rstd);
        }
        for (int column = 0; biases != NULL && column < width; column++) {
            biases[column] += given[column];
        }
    }
}

// gelu(x) = x / (1 + exp(-2 u)) with u = slope (x + cubic x^3): the tanh form, as
// (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)).
static const float slope = 0.797884561F; // sqrt(2 / pi)
static const float cubic = 0.044715F;

EXEC_CPU_INLINE void gelu(const float *input, float *output, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        const float x = input[index];
        const float u = slope * (x + cubic * x * x * x);
        output[index] = x / (1.0F + exec_cpu_exp(-2.0F * u));
    }
}

EXEC_CPU_WIDE static void gelu_wide(const float *input, float *output, size_t count)
{
    gelu(input, output, count);
}

void exec_cpu_gelu(exec_kernels *kernels, const void *input, void *output, size_t count)
{
    (((exec_cpu *)kernels)->is_wide ? gelu_wide : gelu)(input, output, count);
}

/// With s = 1 / (1 + exp(-2 u)): gelu' = s + x * 2 s (1 - s) u'.
EXEC_CPU_INLINE void gelu_input(const float *restrict input, float *restrict gradient, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        const float x = input[index];
        const float square = x * x;
        const float u = slope * (x + cubic * square * x);
        const float u_slope = slope * (1.0F + 3.0F * cubic * square);
        const float s = 1.0F / (1.0F + exec_cpu_exp(-2.0F * u));
        gradient[index] *= s + x * (2.0F * s * (1.0F - s)) * u_slope;
    }
}

EXEC_CPU_WIDE static void gelu_input_wide(const float *input, float *gradient, size_t count)
{
    gelu_input(input, gradient, count);
}

void exec_cpu_gelu_input(exec_kernels *kernels, const void *input, void *gradient, size_t count)
{
    (((exec_cpu *)kernels)->is_wide ? gelu_input_wide : gelu_input)(input, gradient, count);
}

/// The largest of a row less the second largest, which may be as large. Hardly a number is larger
/// than the two before it, so that the branch costs less than to keep both without one.
EXEC_CPU_INLINE float lead_of_largest(const float *row, int classes)
{
    float largest = -INFINITY;
    float second = -INFINITY;
    for (int class = 0; class < classes; class ++) {
        if (row[class] > second) {
            second = row[class] > largest ? largest : row[class];
            largest = row[class] > largest ? row[class] : largest;
        }
    }
    return largest - second;
}

/// @return the loss; row becomes its gradient in to, which may be row
EXEC_CPU_INLINE float cross_entropy_row(const float *row, int target, int classes, float scale,
                                        float *confidence, float *to)
{
    const float lead = confidence != NULL ? lead_of_largest(row, classes) : 0.0F;
    float largest = row[0];
    for (int class = 1; class < classes; class ++) {
        largest = row[class] > largest ? row[class] : largest;
    }
    const float wanted = row[target] - largest;
    for (int class = 0; class < classes; class ++) {
        to[class] = exec_cpu_exp(row[class] - largest);
    }
    const float sum = exec_cpu_sum(to, classes);
    const float factor = scale / sum;
    for (int class = 0; class < classes; class ++) {
        to[class] *= factor;
    }
    to[target] -= scale;
    if (confidence != NULL) {
        confidence[0] = (1.0F - exec_cpu_exp(-lead)) / sum;
        confidence[1] = 1.0F / sum;
    }
    return logf(sum) - wanted;
}

EXEC_CPU_WIDE static float cross_entropy_row_wide(const float *row, int target, int classes,
                                                  float scale, float *confidence, float *to)
{
    return cross_entropy_row(row, target, classes, scale, confidence, to);
}

void exec_cpu_cross_entropy(exec_kernels *kernels, const void *logits, const int *target, int rows,
                            int classes, float scale, float *loss, float *confidence,
                            void *logits_gradient)
{
    const bool is_wide = ((exec_cpu *)kernels)->is_wide;
    for (int row = 0; row < rows; row++) {
        const float *from = (const float *)logits + (ptrdiff_t)row * classes;
        float *to = (float *)logits_gradient + (ptrdiff_t)row * classes;
        float *sure = confidence == NULL ? NULL : confidence + 2 * (ptrdiff_t)row;
        loss[row] = (is_wide ? cross_entropy_row_wide
                             : cross_entropy_row)(from, target[row], classes, scale, sure, to);
    }
}
