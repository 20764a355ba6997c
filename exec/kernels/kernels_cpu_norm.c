/// LayerNorm and RMSNorm in plain C.
#include "exec/kernels/kernels_cpu_row.h"

#include <math.h>

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
