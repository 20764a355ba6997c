/// AdamW, sums of squares and masks in plain C.
#include "exec/kernels/kernels_cpu.h"

#include <math.h>

double exec_cpu_sum_of_squares(exec_kernels *kernels, const float *values, size_t count)
{
    (void)kernels;
    double sum[EXEC_CPU_LANES] = {0};
    size_t index = 0;
    for (; index + EXEC_CPU_LANES <= count; index += EXEC_CPU_LANES) {
        for (size_t lane = 0; lane < EXEC_CPU_LANES; lane++) {
            const double value = (double)values[index + lane];
            sum[lane] += value * value;
        }
    }
    double total = 0;
    for (; index < count; index++) {
        total += (double)values[index] * (double)values[index];
    }
    for (int lane = 0; lane < EXEC_CPU_LANES; lane++) {
        total += sum[lane];
    }
    return total;
}

/// The places of sum_of_squares decide to which partial sum a number goes.
double exec_cpu_held_squares(exec_kernels *kernels, const exec_held *held, int held_count,
                             const float *values, size_t count)
{
    (void)kernels;
    const size_t whole = count - count % EXEC_CPU_LANES;
    double sum[EXEC_CPU_LANES + 1] = {0}; // the last: of what follows the last whole run of lanes
    for (int part = 0; part < held_count; part++) {
        const exec_csr *csr = held[part].csr;
        size_t row = 0;
        for (size_t at = 0; at < held[part].count; at++) {
            size_t place = held[part].place + at;
            if (csr != NULL) {
                while ((size_t)csr->first[row + 1] <= at) {
                    row++;
                }
                place = held[part].place + row * (size_t)csr->columns + (size_t)csr->column[at];
            }
            const double value = (double)*values++;
            sum[place < whole ? place % EXEC_CPU_LANES : EXEC_CPU_LANES] += value * value;
        }
    }
    double total = sum[EXEC_CPU_LANES];
    for (int lane = 0; lane < EXEC_CPU_LANES; lane++) {
        total += sum[lane];
    }
    return total;
}

/// Constants of one update.
typedef struct update {
    float scale, beta1, rest1, beta2, rest2;
    float unbias1, unbias2; // 1 / (1 - beta^step)
    float learning_rate, epsilon, shrink;
} update;

static update update_of(const exec_adamw *options)
{
    const double step = options->step;
    return (update){
        .scale = options->gradient_scale,
        .beta1 = options->beta1,
        .rest1 = 1.0F - options->beta1,
        .beta2 = options->beta2,
        .rest2 = 1.0F - options->beta2,
        .unbias1 = (float)(1.0 / (1.0 - pow((double)options->beta1, step))),
        .unbias2 = (float)(1.0 / (1.0 - pow((double)options->beta2, step))),
        .learning_rate = options->learning_rate,
        .epsilon = options->epsilon,
        .shrink = 1.0F - options->learning_rate * options->weight_decay,
    };
}

EXEC_CPU_INLINE void step(const update *by, float *restrict master, float *restrict moment1,
                          float *restrict moment2, const float *restrict gradient, size_t count)
{
    const update of = *by;
    for (size_t index = 0; index < count; index++) {
        const float slope = gradient[index] * of.scale;
        const float first = of.beta1 * moment1[index] + of.rest1 * slope;
        const float second = of.beta2 * moment2[index] + of.rest2 * (slope * slope);
        moment1[index] = first;
        moment2[index] = second;
        const float change = first * of.unbias1 / (sqrtf(second * of.unbias2) + of.epsilon);
        master[index] = master[index] * of.shrink - of.learning_rate * change;
    }
}

EXEC_CPU_WIDE static void step_wide(const update *by, float *master, float *moment1, float *moment2,
                                    const float *gradient, size_t count)
{
    step(by, master, moment1, moment2, gradient, count);
}

void exec_cpu_adamw(exec_kernels *kernels, const exec_adamw *options, float *master, float *moment1,
                    float *moment2, const float *gradient, const uint8_t *keep, void *weights,
                    size_t count)
{
    (void)weights; // the master itself
    const update by = update_of(options);
    (((exec_cpu *)kernels)->is_wide ? step_wide : step)(&by, master, moment1, moment2, gradient,
                                                        count);
    if (keep == NULL) return;
    for (size_t index = 0; index < count; index++) {
        if (keep[index]) continue;
        master[index] = 0.0F;
        moment1[index] = 0.0F;
        moment2[index] = 0.0F;
    }
}

void exec_cpu_mask(exec_kernels *kernels, float *values, const uint8_t *keep, size_t count)
{
    (void)kernels;
    for (size_t at = 0; at < count; at++) {
        values[at] = keep[at] != 0 ? values[at] : 0.0F;
    }
}
