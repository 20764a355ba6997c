/// How well a calibration predicts runs that were measured: for people and for programs.
#pragma once

#include "analysis/calibration/calibration.h"
#include "base/text.h"

/// One predicted run.
typedef struct ana_scored_run {
    int row; // of the table
    double predicted_ms;
    double low_ms; // the interval
    double high_ms;
} ana_scored_run;

/// Errors are predicted over measured, less 1, and absolute unless said.
typedef struct ana_calibration_score {
    int fitted_count;
    int predicted_count;
    int both_count; // rows that were predicted and fitted, which is no test
    double level;   // of the intervals
    double error_mean;
    double error_median;
    double error_p90;
    double error_max;
    double error_signed_mean;
    double interval_coverage;           // share of runs whose measured time is within
    double interval_width_mean;         // over the predicted time
    double fitted_error_mean;           // of the rows that were fitted
    int beyond_count[ANA_SHAPE_FIELDS]; // predicted runs outside of what was fitted, by field
    ana_scored_run *runs;               // [predicted_count]
} ana_calibration_score;

/// Fits some rows and predicts others. With none to predict, of the score only fitted_count, level
/// and fitted_error_mean are other than zero.
///
/// @param fit_rows     [fit_count] rows of runs
/// @param predict_rows [predict_count] not read where predict_count is 0
/// @param level        within (0, 1)
/// @return as ana_calibration_fit
status ana_calibration_try(const ana_measured_runs *runs, const int *fit_rows, int fit_count,
                           const int *predict_rows, int predict_count,
                           const ana_calibration_settings *settings, double level, arena *memory,
                           ana_calibration *calibration, ana_calibration_score *score,
                           error_message *err);

/// Everything that is shown. Borrowed for the call.
typedef struct ana_calibration_shown {
    const ana_measured_runs *runs;
    const ana_calibration *calibration;
    const ana_calibration_score *score;
    bool with_runs; // each predicted run too
} ana_calibration_shown;

void ana_calibration_write_json(const ana_calibration_shown *shown, text_buffer *out);
void ana_calibration_write_text(const ana_calibration_shown *shown, text_buffer *out);
