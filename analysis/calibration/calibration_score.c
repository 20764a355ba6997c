#include "analysis/calibration/calibration_score.h"

#include <gsl/gsl_sort_double.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>

/// Rows of a table as arrays of their own.
typedef struct chosen_runs {
    int count;
    ana_run_shape *shapes;
    double *measured_ms;
    double *predicted_ms;
    bool *is_fitted;
} chosen_runs;

static status allocate(int count, arena *memory, chosen_runs *out, error_message *err)
{
    const size_t runs = (size_t)count;
    *out = (chosen_runs){
        .shapes = arena_array(memory, runs, sizeof *out->shapes),
        .measured_ms = arena_array(memory, runs, sizeof *out->measured_ms),
        .predicted_ms = arena_array(memory, runs, sizeof *out->predicted_ms),
        .is_fitted = arena_array(memory, runs, sizeof *out->is_fitted),
    };
    if (out->shapes != NULL && out->measured_ms != NULL && out->predicted_ms != NULL &&
        out->is_fitted != NULL) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_NO_MEMORY, "out of memory");
}

static void add(chosen_runs *chosen, const ana_measured_runs *runs, int row)
{
    chosen->shapes[chosen->count] = runs->shapes[row];
    chosen->measured_ms[chosen->count++] = runs->iteration_ms[row];
}

/// The rows to be predicted, then those fitted that are not among them.
static status choose(const ana_measured_runs *runs, const int *fit_rows, int fit_count,
                     const int *predict_rows, int predict_count, arena *memory, chosen_runs *out,
                     error_message *err)
{
    bool *is_fitted = arena_array(memory, (size_t)runs->source.row_count, sizeof *is_fitted);
    bool *is_taken = arena_array(memory, (size_t)runs->source.row_count, sizeof *is_taken);
    TRY(allocate(fit_count + predict_count, memory, out, err));
    for (int index = 0; index < fit_count; index++) {
        is_fitted[fit_rows[index]] = true;
    }
    for (int index = 0; index < predict_count; index++) {
        is_taken[predict_rows[index]] = true;
        out->is_fitted[out->count] = is_fitted[predict_rows[index]];
        add(out, runs, predict_rows[index]);
    }
    for (int index = 0; index < fit_count; index++) {
        if (is_taken[fit_rows[index]]) continue;
        out->is_fitted[out->count] = true;
        add(out, runs, fit_rows[index]);
    }
    return STATUS_OK;
}

static void predict(const ana_calibration *calibration, chosen_runs *chosen,
                    const int *predict_rows, arena *memory, ana_calibration_score *score)
{
    const double quantile = ana_calibration_quantile(calibration, score->level);
    double *scratch =
        arena_array(memory, 2 * (size_t)calibration->coefficient_count, sizeof *scratch);
    score->runs = arena_array(memory, (size_t)score->predicted_count, sizeof *score->runs);
    for (int run = 0; run < chosen->count; run++) {
        const ana_prediction found =
            ana_calibration_predict(calibration, &chosen->shapes[run], scratch);
        chosen->predicted_ms[run] = found.mean_ms;
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

static void score_fit(const chosen_runs *chosen, ana_calibration_score *score)
{
    for (int run = 0; run < chosen->count; run++) {
        if (!chosen->is_fitted[run]) continue;
        const double error = chosen->predicted_ms[run] / chosen->measured_ms[run] - 1;
        score->fitted_error_mean += fabs(error) / score->fitted_count;
    }
}

static void score_intervals(const chosen_runs *chosen, ana_calibration_score *score)
{
    int covered = 0;
    double width = 0;
    for (int run = 0; run < score->predicted_count; run++) {
        const ana_scored_run *each = &score->runs[run];
        const double measured = chosen->measured_ms[run];
        covered += measured >= each->low_ms && measured <= each->high_ms;
        width += (each->high_ms - each->low_ms) / each->predicted_ms;
    }
    score->interval_coverage = (double)covered / score->predicted_count;
    score->interval_width_mean = width / score->predicted_count;
}

static void score_errors(const chosen_runs *chosen, arena *memory, ana_calibration_score *score)
{
    const size_t count = (size_t)score->predicted_count;
    double *errors = arena_array(memory, count, sizeof *errors);
    for (int run = 0; run < score->predicted_count; run++) {
        const double error = chosen->predicted_ms[run] / chosen->measured_ms[run] - 1;
        errors[run] = fabs(error);
        score->both_count += chosen->is_fitted[run];
        score->error_signed_mean += error / score->predicted_count;
    }
    gsl_sort(errors, 1, count);
    score->error_mean = gsl_stats_mean(errors, 1, count);
    score->error_median = gsl_stats_median_from_sorted_data(errors, 1, count);
    score->error_p90 = gsl_stats_quantile_from_sorted_data(errors, 1, count, 0.9);
    score->error_max = errors[count - 1];
}

static void score_predictions(const chosen_runs *chosen, arena *memory,
                              ana_calibration_score *score)
{
    if (score->predicted_count == 0) return;
    score_intervals(chosen, score);
    score_errors(chosen, memory, score);
    ana_decision_score(chosen->shapes, chosen->measured_ms, chosen->predicted_ms,
                       score->predicted_count, memory, &score->predicted_choice);
    ana_decision_score(chosen->shapes, chosen->measured_ms, chosen->predicted_ms, chosen->count,
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
    TRY(allocate(fit_count, memory, &fitted, err));
    for (int index = 0; index < fit_count; index++) {
        add(&fitted, runs, fit_rows[index]);
    }
    TRY(ana_calibration_fit(fitted.shapes, fitted.measured_ms, fit_count, settings, memory,
                            calibration, err));
    ana_calibration_score made = {
        .fitted_count = fit_count, .predicted_count = predict_count, .level = level};
    TRY(choose(runs, fit_rows, fit_count, predict_rows, predict_count, memory, &chosen, err));
    predict(calibration, &chosen, predict_rows, memory, &made);
    score_fit(&chosen, &made);
    score_predictions(&chosen, memory, &made);
    *score = made;
    return STATUS_OK;
}
