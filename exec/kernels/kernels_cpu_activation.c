/// GELU, softmax and cross-entropy in plain C.
#include "exec/kernels/kernels_cpu_row.h"

#include <math.h>

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
