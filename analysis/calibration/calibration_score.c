/// Errors of predictions, and the regret of choices that follow them.
#include "analysis/calibration/calibration_score.h"

#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

/// A run with what it can be exchanged for: runs whose trained fields are equal.
typedef struct candidate {
    int64_t trained[7];
    int order; // in which they were given
    double measured_ms;
    double predicted_ms;
} candidate;

static candidate candidate_of(const ana_run_shape *shape, int order)
{
    return (candidate){.trained = {shape->gpu_count, shape->global_batch_count, shape->hidden_size,
                                   shape->head_count, shape->layer_count, shape->sequence_length,
                                   shape->vocabulary_size},
                       .order = order};
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

static int compare_candidates(const void *left, const void *right)
{
    const candidate *first = left;
    const candidate *second = right;
    const int trained = compare_trained(first, second);
    return trained != 0 ? trained : first->order - second->order;
}

/// Adds one group to the sums.
static void add_group(const candidate *group, int count, ana_choice *sums)
{
    double best_ms = group[0].measured_ms;
    double sum_ms = 0;
    const candidate *chosen = &group[0];
    for (int index = 0; index < count; index++) {
        const candidate *each = &group[index];
        sum_ms += each->measured_ms;
        if (each->measured_ms < best_ms) best_ms = each->measured_ms;
        if (each->predicted_ms < chosen->predicted_ms) chosen = each;
    }
    const double regret = chosen->measured_ms / best_ms - 1;
    sums->group_count++;
    sums->run_count += count;
    sums->best_share += regret <= 0;
    sums->regret_mean += regret;
    sums->blind_mean += sum_ms / count / best_ms - 1;
    if (regret > sums->regret_max) sums->regret_max = regret;
}

void ana_choice_score(const ana_measured_runs *runs, const int *rows, const double *predicted_ms,
                      int count, arena *memory, ana_choice *out)
{
    candidate *candidates = arena_array(memory, (size_t)count, sizeof *candidates);
    for (int index = 0; index < count; index++) {
        candidates[index] = candidate_of(&runs->shapes[rows[index]], index);
        candidates[index].measured_ms = runs->iteration_ms[rows[index]];
        candidates[index].predicted_ms = predicted_ms[index];
    }
    qsort(candidates, (size_t)count, sizeof *candidates, compare_candidates);
    ana_choice sums = {0};
    for (int first = 0; first < count;) {
        int end = first + 1;
        while (end < count && compare_trained(&candidates[first], &candidates[end]) == 0) {
            end++;
        }
        if (end - first > 1) add_group(candidates + first, end - first, &sums);
        first = end;
    }
    if (sums.group_count > 0) {
        sums.best_share /= sums.group_count;
        sums.regret_mean /= sums.group_count;
        sums.blind_mean /= sums.group_count;
    }
    *out = sums;
}

/// Rows to be predicted, then those fitted that are not among them.
typedef struct chosen_rows {
    int count;
    int *rows;            // [count]
    double *predicted_ms; // [count]
    bool *is_fitted;      // [row_count of the table]
} chosen_rows;

static chosen_rows choose(const ana_measured_runs *runs, const int *fit_rows, int fit_count,
                          const int *predict_rows, int predict_count, arena *memory)
{
    const size_t most = (size_t)fit_count + (size_t)predict_count;
    const size_t row_count = (size_t)runs->source.row_count;
    chosen_rows chosen = {.rows = arena_array(memory, most, sizeof *chosen.rows),
                          .predicted_ms = arena_array(memory, most, sizeof *chosen.predicted_ms),
                          .is_fitted = arena_array(memory, row_count, sizeof *chosen.is_fitted)};
    bool *is_taken = arena_array(memory, row_count, sizeof *is_taken);
    for (int index = 0; index < predict_count; index++) {
        is_taken[predict_rows[index]] = true;
        chosen.rows[chosen.count++] = predict_rows[index];
    }
    for (int index = 0; index < fit_count; index++) {
        chosen.is_fitted[fit_rows[index]] = true;
        if (!is_taken[fit_rows[index]]) chosen.rows[chosen.count++] = fit_rows[index];
    }
    return chosen;
}

/// Predicts all of them, with intervals where that was asked for.
static void predict(const ana_calibration *calibration, const ana_measured_runs *runs,
                    const chosen_rows *chosen, arena *memory, ana_calibration_score *score)
{
    const double quantile = ana_calibration_quantile(calibration, score->level);
    double *scratch =
        arena_array(memory, 2 * (size_t)calibration->coefficient_count, sizeof *scratch);
    score->runs = arena_array(memory, (size_t)score->predicted_count, sizeof *score->runs);
    for (int run = 0; run < chosen->count; run++) {
        const int row = chosen->rows[run];
        const ana_run_shape *shape = &runs->shapes[row];
        const ana_prediction found = ana_calibration_predict(calibration, shape, scratch);
        const double error = found.middle_ms / runs->iteration_ms[row] - 1;
        chosen->predicted_ms[run] = found.middle_ms;
        if (chosen->is_fitted[row]) score->fitted_error_mean += fabs(error) / score->fitted_count;
        if (run >= score->predicted_count) continue;
        const unsigned beyond = ana_calibration_beyond(calibration, shape);
        for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
            score->beyond_count[field] += (beyond & 1U << field) != 0;
        }
        const double half = exp(quantile * found.deviation);
        score->runs[run] = (ana_scored_run){.row = row,
                                            .predicted_ms = found.middle_ms,
                                            .low_ms = found.middle_ms / half,
                                            .high_ms = found.middle_ms * half};
    }
}

static void score_predictions(const ana_measured_runs *runs, const chosen_rows *chosen,
                              arena *memory, ana_calibration_score *score)
{
    const size_t count = (size_t)score->predicted_count;
    double *errors = arena_array(memory, count, sizeof *errors);
    int covered = 0;
    double width = 0;
    if (count == 0) return;
    for (int run = 0; run < score->predicted_count; run++) {
        const ana_scored_run *each = &score->runs[run];
        const double measured = runs->iteration_ms[each->row];
        const double error = each->predicted_ms / measured - 1;
        errors[run] = fabs(error);
        score->both_count += chosen->is_fitted[each->row];
        score->error_signed_mean += error / score->predicted_count;
        covered += measured >= each->low_ms && measured <= each->high_ms;
        width += (each->high_ms - each->low_ms) / each->predicted_ms;
    }
    score->interval_coverage = (double)covered / score->predicted_count;
    score->interval_width_mean = width / score->predicted_count;
    gsl_sort(errors, 1, count);
    score->error_mean = gsl_stats_mean(errors, 1, count);
    score->error_median = gsl_stats_median_from_sorted_data(errors, 1, count);
    score->error_p90 = gsl_stats_quantile_from_sorted_data(errors, 1, count, 0.9);
    score->error_max = errors[count - 1];
    ana_choice_score(runs, chosen->rows, chosen->predicted_ms, score->predicted_count, memory,
                     &score->predicted_choice);
    ana_choice_score(runs, chosen->rows, chosen->predicted_ms, chosen->count, memory,
                     &score->all_choice);
}

status ana_calibration_try(const ana_measured_runs *runs, const int *fit_rows, int fit_count,
                           const int *predict_rows, int predict_count,
                           const ana_calibration_settings *settings, double level, arena *memory,
                           ana_calibration *calibration, ana_calibration_score *score,
                           error_message *err)
{
    ana_run_shape *shapes = arena_array(memory, (size_t)fit_count, sizeof *shapes);
    double *iteration_ms = arena_array(memory, (size_t)fit_count, sizeof *iteration_ms);
    for (int index = 0; index < fit_count; index++) {
        shapes[index] = runs->shapes[fit_rows[index]];
        iteration_ms[index] = runs->iteration_ms[fit_rows[index]];
    }
    TRY(ana_calibration_fit(shapes, iteration_ms, fit_count, settings, memory, calibration, err));
    *score = (ana_calibration_score){
        .fitted_count = fit_count, .predicted_count = predict_count, .level = level};
    const chosen_rows chosen =
        choose(runs, fit_rows, fit_count, predict_rows, predict_count, memory);
    predict(calibration, runs, &chosen, memory, score);
    score_predictions(runs, &chosen, memory, score);
    return STATUS_OK;
}
