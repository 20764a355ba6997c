#include "models/dynamism/pruning.h"

#include <assert.h>
#include <math.h>

/// The released code passes over a step that takes at most this share of the weights that are left.
#define RELEASED_STEP_MIN 0.01

status model_pruning_schedule_check(const model_pruning_schedule *schedule, error_message *err)
{
    const int start = schedule->start_iteration;
    const int end = schedule->end_iteration;
    if (end <= start) {
        return error_set(err, STATUS_INVALID,
                         "the schedule ends before it starts: end_iteration %d is not after "
                         "start_iteration %d",
                         end, start);
    }
    if (end - start < schedule->interval) {
        return error_set(err, STATUS_INVALID,
                         "interval %d is longer than the schedule, which lasts %d iterations",
                         schedule->interval, end - start);
    }
    if (!schedule->as_released && (end - start) % schedule->interval != 0) {
        return error_set(err, STATUS_INVALID,
                         "the schedule lasts %d iterations, which is no multiple of interval %d",
                         end - start, schedule->interval);
    }
    if (schedule->initial_sparsity <= schedule->final_sparsity) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "initial_sparsity %g is outside [0, final_sparsity %g]",
                     schedule->initial_sparsity, schedule->final_sparsity);
}

double model_pruning_target(const model_pruning_schedule *schedule, int iteration)
{
    if (iteration < schedule->start_iteration) return 0;
    const int length = schedule->end_iteration - schedule->start_iteration;
    const int steps = length / schedule->interval;
    const double done =
        (double)(iteration - schedule->start_iteration) / ((double)steps * schedule->interval);
    const double left = done < 1 ? 1 - done : 0;
    return schedule->final_sparsity +
           (schedule->initial_sparsity - schedule->final_sparsity) * left * left * left;
}

/// Whether the released code prunes at a multiple of interval inside the schedule.
static bool is_released_step(const model_pruning_schedule *schedule, int iteration)
{
    const double before = model_pruning_target(schedule, iteration - schedule->interval);
    const double after = model_pruning_target(schedule, iteration);
    return before < 1 && (after - before) / (1 - before) > RELEASED_STEP_MIN;
}

static int last_released_step(const model_pruning_schedule *schedule, int iteration)
{
    const int last = iteration < schedule->end_iteration ? iteration : schedule->end_iteration - 1;
    for (int step = last - last % schedule->interval; step > schedule->start_iteration;
         step -= schedule->interval) {
        if (is_released_step(schedule, step)) return step;
    }
    return -1;
}

int model_pruning_last_step(const model_pruning_schedule *schedule, int iteration)
{
    if (iteration < 0) return -1;
    if (schedule->as_released) return last_released_step(schedule, iteration);
    if (iteration < schedule->start_iteration) return -1;
    const int last = iteration < schedule->end_iteration ? iteration : schedule->end_iteration;
    return last - (last - schedule->start_iteration) % schedule->interval;
}

double model_pruning_sparsity(const model_pruning_schedule *schedule, int iteration)
{
    const int step = model_pruning_last_step(schedule, iteration);
    return step < 0 ? 0 : model_pruning_target(schedule, step);
}

static double density_at(double threshold, double sigma)
{
    return erfc(threshold / (sigma * sqrt(2.0)));
}

/// Weights above a threshold, over all layers.
static double kept_weights(const double *sigma, const int64_t *weight_count, int layer_count,
                           double threshold)
{
    double kept = 0;
    for (int layer = 0; layer < layer_count; layer++) {
        kept += (double)weight_count[layer] * density_at(threshold, sigma[layer]);
    }
    return kept;
}

/// Beyond 40 standard deviations a double knows no weights.
static double bisect_threshold(const double *sigma, const int64_t *weight_count, int layer_count,
                               double wanted)
{
    enum { STEPS = 120 }; // beyond the 53 bits of a double
    double low = 0;
    double high = 0;
    for (int layer = 0; layer < layer_count; layer++) {
        if (40 * sigma[layer] > high) high = 40 * sigma[layer];
    }
    for (int step = 0; step < STEPS; step++) {
        const double middle = low + (high - low) / 2;
        if (kept_weights(sigma, weight_count, layer_count, middle) > wanted) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

void model_pruning_densities(const double *sigma, const int64_t *weight_count, int layer_count,
                             double sparsity, double *density)
{
    double all = 0;
    for (int layer = 0; layer < layer_count; layer++) {
        assert(sigma[layer] > 0 && weight_count[layer] >= 0);
        all += (double)weight_count[layer];
    }
    const double threshold =
        sparsity > 0 && sparsity < 1
            ? bisect_threshold(sigma, weight_count, layer_count, all * (1 - sparsity))
            : 0;
    for (int layer = 0; layer < layer_count; layer++) {
        density[layer] = sparsity >= 1 ? 0 : density_at(threshold, sigma[layer]);
    }
}

static const double sputnik_densities[] = {0.05, 0.10, 0.15, 0.20, 0.25, 0.50};
#define CUBLAS_MS 7.2852821
static const double sputnik_ratios[] = {
    2.521871 / CUBLAS_MS, 4.023627 / CUBLAS_MS, 5.078734 / CUBLAS_MS,
    6.065586 / CUBLAS_MS, 7.870807 / CUBLAS_MS, 13.047884 / CUBLAS_MS,
};
const model_kernel_speed model_kernel_speed_sputnik_a100 = {
    sputnik_densities, sputnik_ratios, sizeof sputnik_ratios / sizeof sputnik_ratios[0]};

status model_kernel_speed_check(const model_kernel_speed *speed, error_message *err)
{
    for (int point = 0; point < speed->count; point++) {
        const double density = speed->density[point];
        const double ratio = speed->ratio[point];
        if (!(density > 0 && density <= 1)) {
            return error_set(err, STATUS_INVALID,
                             "point %d of the curve: density %g is outside "
                             "(0, 1]",
                             point, density);
        }
        if (!(ratio > 0 && isfinite(ratio))) {
            return error_set(err, STATUS_INVALID, "point %d of the curve: ratio %g is not positive",
                             point, ratio);
        }
        if (point == 0) continue;
        if (density <= speed->density[point - 1]) {
            return error_set(err, STATUS_INVALID,
                             "point %d of the curve: density %g is not above %g, the one before",
                             point, density, speed->density[point - 1]);
        }
        if (ratio < speed->ratio[point - 1]) {
            return error_set(
                err, STATUS_INVALID,
                "point %d of the curve: ratio %g is below %g, the one before: a denser "
                "matrix cannot be faster",
                point, ratio, speed->ratio[point - 1]);
        }
    }
    return STATUS_OK;
}

double model_kernel_speed_at(const model_kernel_speed *speed, double density)
{
    if (density <= speed->density[0] || speed->count == 1) return speed->ratio[0];
    int above = 1;
    while (above < speed->count - 1 && speed->density[above] < density) {
        above++;
    }
    const double slope = (speed->ratio[above] - speed->ratio[above - 1]) /
                         (speed->density[above] - speed->density[above - 1]);
    return speed->ratio[above - 1] + slope * (density - speed->density[above - 1]);
}
