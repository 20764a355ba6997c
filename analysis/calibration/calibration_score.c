/// Errors of predictions, and the regret of choices that follow them.
#include "analysis/calibration/calibration_score.h"

#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
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

static int compare_candidates(const void *left, const void *right)
{
    const candidate *first = left;
    const candidate *second = right;
    const int order = compare_trained(first, second);
    return order != 0 ? order : first->run - second->run;
}

/// Adds one group to the sums.
static void add_group(const candidate *group, int count, const double *measured_ms,
                      const double *predicted_ms, ana_choice *sums)
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

void ana_choice_score(const ana_run_shape *shapes, const double *measured_ms,
                      const double *predicted_ms, int run_count, arena *memory, ana_choice *out)
{
    candidate *runs = arena_array(memory, (size_t)run_count, sizeof *runs);
    for (int run = 0; run < run_count; run++) {
        runs[run] = candidate_of(&shapes[run], run);
    }
    qsort(runs, (size_t)run_count, sizeof *runs, compare_candidates);
    ana_choice sums = {0};
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

/// Rows of a table as arrays of their own, and what is predicted of them.
typedef struct chosen_runs {
    int count;
    ana_run_shape *shapes;
    double *measured_ms;
    double *predicted_ms;
    bool *is_fitted;
} chosen_runs;

static void make_room(int count, arena *memory, chosen_runs *out)
{
    const size_t runs = (size_t)count;
    *out = (chosen_runs){
        .shapes = arena_array(memory, runs, sizeof *out->shapes),
        .measured_ms = arena_array(memory, runs, sizeof *out->measured_ms),
        .predicted_ms = arena_array(memory, runs, sizeof *out->predicted_ms),
        .is_fitted = arena_array(memory, runs, sizeof *out->is_fitted),
    };
}

static void add_run(chosen_runs *chosen, const ana_measured_runs *runs, int row, bool is_fitted)
{
    chosen->shapes[chosen->count] = runs->shapes[row];
    chosen->is_fitted[chosen->count] = is_fitted;
    chosen->measured_ms[chosen->count++] = runs->iteration_ms[row];
}

/// The rows to be predicted, then those fitted that are not among them.
static void choose(const ana_measured_runs *runs, const int *fit_rows, int fit_count,
                   const int *predict_rows, int predict_count, arena *memory, chosen_runs *out)
{
    bool *is_fitted = arena_array(memory, (size_t)runs->source.row_count, sizeof *is_fitted);
    bool *is_taken = arena_array(memory, (size_t)runs->source.row_count, sizeof *is_taken);
    make_room(fit_count + predict_count, memory, out);
    for (int index = 0; index < fit_count; index++) {
        is_fitted[fit_rows[index]] = true;
    }
    for (int index = 0; index < predict_count; index++) {
        is_taken[predict_rows[index]] = true;
        add_run(out, runs, predict_rows[index], is_fitted[predict_rows[index]]);
    }
    for (int index = 0; index < fit_count; index++) {
        if (!is_taken[fit_rows[index]]) add_run(out, runs, fit_rows[index], true);
    }
}

static void predict(const ana_calibration *calibration, chosen_runs *chosen,
                    const int *predict_rows, arena *memory, ana_calibration_score *score)
{
    const double quantile = ana_calibration_quantile(calibration, score->level);
    double *scratch = arena_array(memory, (size_t)calibration->coefficient_count, sizeof *scratch);
    score->runs = arena_array(memory, (size_t)score->predicted_count, sizeof *score->runs);
    for (int run = 0; run < chosen->count; run++) {
        const ana_prediction found =
            ana_calibration_predict(calibration, &chosen->shapes[run], scratch);
        const double error = found.mean_ms / chosen->measured_ms[run] - 1;
        chosen->predicted_ms[run] = found.mean_ms;
        if (chosen->is_fitted[run]) score->fitted_error_mean += fabs(error) / score->fitted_count;
        if (run >= score->predicted_count) continue;
        const unsigned beyond = ana_calibration_beyond(calibration, &chosen->shapes[run]);
        for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
            score->beyond_count[field] += (beyond & 1U << field) != 0;
        }
        const double half = quantile * found.deviation_ms;
        score->runs[run] = (ana_scored_run){.row = predict_rows[run],
                                            .predicted_ms = found.mean_ms,
                                            .low_ms = fmax(0, found.mean_ms - half),
                                            .high_ms = found.mean_ms + half};
    }
}

static void score_predictions(const chosen_runs *chosen, arena *memory,
                              ana_calibration_score *score)
{
    const size_t count = (size_t)score->predicted_count;
    double *errors = arena_array(memory, count, sizeof *errors);
    int covered = 0;
    double width = 0;
    if (count == 0) return;
    for (int run = 0; run < score->predicted_count; run++) {
        const ana_scored_run *each = &score->runs[run];
        const double measured = chosen->measured_ms[run];
        const double error = each->predicted_ms / measured - 1;
        errors[run] = fabs(error);
        score->both_count += chosen->is_fitted[run];
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
    ana_choice_score(chosen->shapes, chosen->measured_ms, chosen->predicted_ms,
                     score->predicted_count, memory, &score->predicted_choice);
    ana_choice_score(chosen->shapes, chosen->measured_ms, chosen->predicted_ms, chosen->count,
                     memory, &score->all_choice);
}

status ana_calibration_try(const ana_measured_runs *runs, const int *fit_rows, int fit_count,
                           const int *predict_rows, int predict_count,
                           const ana_calibration_settings *settings, double level, arena *memory,
                           ana_calibration *calibration, ana_calibration_score *score,
                           error_message *err)
{
    chosen_runs fitted;
    chosen_runs chosen;
    make_room(fit_count, memory, &fitted);
    for (int index = 0; index < fit_count; index++) {
        add_run(&fitted, runs, fit_rows[index], true);
    }
    TRY(ana_calibration_fit(fitted.shapes, fitted.measured_ms, fit_count, settings, memory,
                            calibration, err));
    *score = (ana_calibration_score){
        .fitted_count = fit_count, .predicted_count = predict_count, .level = level};
    choose(runs, fit_rows, fit_count, predict_rows, predict_count, memory, &chosen);
    predict(calibration, &chosen, predict_rows, memory, score);
    score_predictions(&chosen, memory, score);
    return STATUS_OK;
}
