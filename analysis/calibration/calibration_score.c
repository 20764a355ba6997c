/// Errors of predictions, and of the rows that were fitted.
#include "analysis/calibration/calibration.h"

#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

/// What is needed to predict one row after the other.
typedef struct predictor {
    const ana_calibration *calibration;
    const ana_measured_runs *runs;
    double quantile;
    double *scratch;
} predictor;

static ana_scored_run predict(const predictor *with, int row)
{
    const ana_prediction found =
        ana_calibration_predict(with->calibration, &with->runs->shapes[row], with->scratch);
    const double half = exp(with->quantile * found.deviation);
    return (ana_scored_run){.row = row,
                            .predicted_ms = found.middle_ms,
                            .low_ms = found.middle_ms / half,
                            .high_ms = found.middle_ms * half};
}

static double error_of(const ana_measured_runs *runs, const ana_scored_run *run)
{
    return run->predicted_ms / runs->iteration_ms[run->row] - 1;
}

static void count_beyond(const predictor *with, int row, ana_calibration_score *score)
{
    const unsigned beyond = ana_calibration_beyond(with->calibration, &with->runs->shapes[row]);
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        score->beyond_count[field] += (beyond & 1U << field) != 0;
    }
}

static void score_predictions(const ana_measured_runs *runs, arena *memory,
                              ana_calibration_score *score)
{
    const size_t count = (size_t)score->predicted_count;
    double *errors = arena_array(memory, count, sizeof *errors);
    int covered = 0;
    double width = 0;
    if (count == 0) return;
    for (int run = 0; run < score->predicted_count; run++) {
        const ana_scored_run *each = &score->runs[run];
        const double measured = runs->iteration_ms[each->row];
        errors[run] = fabs(error_of(runs, each));
        score->error_signed_mean += error_of(runs, each) / score->predicted_count;
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
}

status ana_calibration_try(const ana_measured_runs *runs, const int *fit_rows, int fit_count,
                           const int *predict_rows, int predict_count,
                           const ana_calibration_settings *settings, double level, arena *memory,
                           ana_calibration *calibration, ana_calibration_score *score,
                           error_message *err)
{
    ana_run_shape *shapes = arena_array(memory, (size_t)fit_count, sizeof *shapes);
    double *iteration_ms = arena_array(memory, (size_t)fit_count, sizeof *iteration_ms);
    bool *is_fitted = arena_array(memory, (size_t)runs->source.row_count, sizeof *is_fitted);
    for (int index = 0; index < fit_count; index++) {
        shapes[index] = runs->shapes[fit_rows[index]];
        iteration_ms[index] = runs->iteration_ms[fit_rows[index]];
        is_fitted[fit_rows[index]] = true;
    }
    TRY(ana_calibration_fit(shapes, iteration_ms, fit_count, settings, memory, calibration, err));
    *score = (ana_calibration_score){
        .fitted_count = fit_count, .predicted_count = predict_count, .level = level};
    score->runs = arena_array(memory, (size_t)predict_count, sizeof *score->runs);
    const predictor with = {
        calibration, runs, ana_calibration_quantile(calibration, level),
        arena_array(memory, 2 * (size_t)calibration->coefficient_count, sizeof *with.scratch)};
    for (int index = 0; index < predict_count; index++) {
        score->runs[index] = predict(&with, predict_rows[index]);
        score->both_count += is_fitted[predict_rows[index]];
        count_beyond(&with, predict_rows[index], score);
    }
    for (int index = 0; index < fit_count; index++) {
        const ana_scored_run fitted = predict(&with, fit_rows[index]);
        score->fitted_error_mean += fabs(error_of(runs, &fitted)) / fit_count;
    }
    score_predictions(runs, memory, score);
    return STATUS_OK;
}
