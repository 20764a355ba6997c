#include "analysis/calibration/decision.h"

#include <stdlib.h>

/// A run with what it can be exchanged for: runs whose trained fields are equal.
typedef struct candidate {
    int64_t trained[7];
    int run;
} candidate;

static candidate candidate_of(const ana_run_shape *shape, int run)
{
    return (candidate){.trained = {shape->gpu_count, shape->global_batch_count, shape->hidden_size,
                                   shape->head_count, shape->layer_count, shape->sequence_length,
                                   shape->vocabulary_size},
                       .run = run};
}

static int compare_trained(const candidate *left, const candidate *right)
{
    for (int field = 0; field < 7; field++) {
        if (left->trained[field] != right->trained[field]) {
            return left->trained[field] < right->trained[field] ? -1 : 1;
        }
    }
    return 0;
}

static int compare(const void *left, const void *right)
{
    const candidate *first = left;
    const candidate *second = right;
    const int order = compare_trained(first, second);
    return order != 0 ? order : first->run - second->run;
}

/// Adds one group to the sums.
static void add_group(const candidate *group, int count, const double *measured_ms,
                      const double *predicted_ms, ana_decision *sums)
{
    double best_ms = measured_ms[group[0].run];
    double sum_ms = 0;
    int chosen = group[0].run;
    for (int index = 0; index < count; index++) {
        const int run = group[index].run;
        sum_ms += measured_ms[run];
        if (measured_ms[run] < best_ms) best_ms = measured_ms[run];
        if (predicted_ms[run] < predicted_ms[chosen]) chosen = run;
    }
    const double regret = measured_ms[chosen] / best_ms - 1;
    sums->group_count++;
    sums->run_count += count;
    sums->best_share += regret <= 0;
    sums->regret_mean += regret;
    sums->blind_mean += sum_ms / count / best_ms - 1;
    if (regret > sums->regret_max) sums->regret_max = regret;
}

void ana_decision_score(const ana_run_shape *shapes, const double *measured_ms,
                        const double *predicted_ms, int run_count, arena *memory, ana_decision *out)
{
    candidate *runs = arena_array(memory, (size_t)run_count, sizeof *runs);
    for (int run = 0; run < run_count; run++) {
        runs[run] = candidate_of(&shapes[run], run);
    }
    qsort(runs, (size_t)run_count, sizeof *runs, compare);
    ana_decision sums = {0};
    for (int first = 0; first < run_count;) {
        int end = first + 1;
        while (end < run_count && compare_trained(&runs[first], &runs[end]) == 0) {
            end++;
        }
        if (end - first > 1) {
            add_group(runs + first, end - first, measured_ms, predicted_ms, &sums);
        }
        first = end;
    }
    if (sums.group_count > 0) {
        sums.best_share /= sums.group_count;
        sums.regret_mean /= sums.group_count;
        sums.blind_mean /= sums.group_count;
    }
    *out = sums;
}
