/// Errors of predictions, and of the rows that were fitted.
#include "analysis/calibration/calibration.h"

#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

ana_errors ana_errors_of(double *errors, int count)
{
    const size_t entries = (size_t)count;
    ana_errors found = {0};
    for (int index = 0; index < count; index++) {
        found.signed_mean += errors[index] / count;
        errors[index] = fabs(errors[index]);
        found.mean += errors[index] / count;
    }
    if (count == 0) return found;
    gsl_sort(errors, 1, entries);
    found.median = gsl_stats_median_from_sorted_data(errors, 1, entries);
    found.p90 = gsl_stats_quantile_from_sorted_data(errors, 1, entries, 0.9);
    found.max = errors[count - 1];
    return found;
}

/// @param scratch as ana_calibration_predict takes it
static ana_scored_run predict(const ana_calibration *calibration, const ana_measured_runs *runs,
                              int row, double level, double *scratch)
{
    const ana_prediction found = ana_calibration_predict(calibration, &runs->shapes[row], scratch);
    const double half = exp(ana_calibration_quantile(calibration, level) * found.deviation);
    return (ana_scored_run){.line = runs->source.lines[row],
                            .measured_ms = runs->iteration_ms[row],
                            .predicted_ms = found.middle_ms,
                            .low_ms = found.middle_ms / half,
                            .high_ms = found.middle_ms * half};
}

static double error_of(const ana_scored_run *run)
{
    return run->predicted_ms / run->measured_ms - 1;
}

static void count_beyond(const ana_calibration *calibration, const ana_run_shape *shape,
                         ana_calibration_score *score)
{
    const unsigned beyond = ana_calibration_beyond(calibration, shape);
    for (int field = 0; field < ANA_SHAPE_FIELDS; field++) {
        score->beyond_count[field] += (beyond & 1U << field) != 0;
    }
}

static void score_predictions(arena *memory, ana_calibration_score *score)
{
    const int count = score->predicted_count;
    double *errors = arena_array(memory, (size_t)count, sizeof *errors);
    int covered = 0;
    double width = 0;
    if (count == 0) return;
    for (int index = 0; index < count; index++) {
        const ana_scored_run *run = &score->runs[index];
        errors[index] = error_of(run);
        covered += run->measured_ms >= run->low_ms && run->measured_ms <= run->high_ms;
        width += (run->high_ms - run->low_ms) / run->predicted_ms;
    }
    score->interval_coverage = (double)covered / count;
    score->interval_width_mean = width / count;
    score->error = ana_errors_of(errors, count);
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
    double *scratch =
        arena_array(memory, 2 * (size_t)calibration->coefficient_count, sizeof *scratch);
    *score = (ana_calibration_score){
        .fitted_count = fit_count, .predicted_count = predict_count, .level = level};
    score->runs = arena_array(memory, (size_t)predict_count, sizeof *score->runs);
    for (int index = 0; index < predict_count; index++) {
        const int row = predict_rows[index];
        score->runs[index] = predict(calibration, runs, row, level, scratch);
        score->both_count += is_fitted[row];
        count_beyond(calibration, &runs->shapes[row], score);
    }
    for (int index = 0; index < fit_count; index++) {
        const ana_scored_run fitted = predict(calibration, runs, fit_rows[index], level, scratch);
        score->fitted_error_mean += fabs(error_of(&fitted)) / fit_count;
    }
    score_predictions(memory, score);
    return STATUS_OK;
}
