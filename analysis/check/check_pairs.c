/// Which iterations are compared: those that both sides have, less the warm-up.
#include "analysis/check/check_parts.h"

#include <math.h>

enum { WARMUP_STEP = 5, LEFT_AT_LEAST = 10, SHARE_MAX = 3 };

/// The sample of each row, or -1.
static int *samples_by_row(const ana_observed *observed, arena *memory)
{
    const size_t count = (size_t)observed->iteration_count;
    int *sample = arena_array(memory, count, sizeof *sample);
    if (sample == NULL) return NULL;
    for (size_t row = 0; row < count; row++) {
        sample[row] = -1;
    }
    for (int each = 0; each < observed->sample_count; each++) {
        sample[observed->sample_row[each]] = each;
    }
    return sample;
}

void ana_check_pairs_find(const ana_observed *plan, const ana_observed *measured, arena *memory,
                          ana_check_pairs *pairs)
{
    const size_t most =
        (size_t)(plan->iteration_count < measured->iteration_count ? plan->iteration_count
                                                                   : measured->iteration_count);
    int *rows = arena_array(memory, most * 4, sizeof *rows);
    bool *same_plan = arena_array(memory, most, sizeof *same_plan);
    const int *plan_samples = samples_by_row(plan, memory);
    const int *measured_samples = samples_by_row(measured, memory);
    int *plan_row = rows;
    int *measured_row = rows + most;
    int *plan_sample = rows + 2 * most;
    int *measured_sample = rows + 3 * most;
    int count = 0;
    for (int one = 0, other = 0;
         one < plan->iteration_count && other < measured->iteration_count;) {
        const int planned = plan->iterations[one].iteration;
        const int found = measured->iterations[other].iteration;
        if (planned == found) {
            plan_row[count] = one;
            measured_row[count] = other;
            plan_sample[count] = plan_samples[one];
            measured_sample[count] = measured_samples[other];
            same_plan[count++] = ana_observed_is_same_plan(
                &plan->plans[plan->plan_of[one]], &measured->plans[measured->plan_of[other]]);
        }
        one += planned <= found;
        other += found <= planned;
    }
    *pairs =
        (ana_check_pairs){count, plan_row, measured_row, plan_sample, measured_sample, same_plan};
}

/// Median of values, and of their distances from it.
static bool middle(const double *values, int count, arena *scratch, double *median, double *spread)
{
    double *sorted = arena_array(scratch, (size_t)count, sizeof *sorted);
    if (sorted == NULL) return false;
    for (int index = 0; index < count; index++) {
        sorted[index] = values[index];
    }
    ana_shift_sort(sorted, count);
    *median = ana_shift_median(sorted, count);
    for (int index = 0; index < count; index++) {
        sorted[index] = fabs(values[index] - *median);
    }
    ana_shift_sort(sorted, count);
    *spread = ana_shift_median(sorted, count);
    return true;
}

int ana_check_warmup_of(const double *values, int count, arena *scratch)
{
    int dropped = 0;
    while (count - dropped >= WARMUP_STEP + LEFT_AT_LEAST && dropped < count / SHARE_MAX) {
        double next = 0;
        double rest = 0;
        double spread = 0;
        double ignored = 0;
        const int behind = dropped + WARMUP_STEP;
        if (!middle(values + dropped, WARMUP_STEP, scratch, &next, &ignored) ||
            !middle(values + behind, count - behind, scratch, &rest, &spread)) {
            break;
        }
        const double hundredth = 0.01 * (1 + fabs(rest));
        if (next - rest <= 3 * spread || next - rest <= hundredth) break;
        dropped++;
    }
    return dropped;
}
