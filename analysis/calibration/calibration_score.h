/// How well a calibration predicts runs that were measured, and what a choice costs that follows
/// it: for people and for programs.
#pragma once

#include "analysis/calibration/calibration.h"
#include "base/text.h"

/// What following predictions costs: of the runs that train the same model with the same global
/// batch on as many GPUs, the one predicted fastest, against the one measured fastest. Regret is
/// the measured time of the choice over the best measured time, less 1. Groups with one run have
/// nothing to choose and do not count; all numbers are 0 where there is no other.
typedef struct ana_choice {
    int group_count;
    int run_count;      // in these groups
    double best_share;  // of groups where the choice was the best
    double regret_mean; // over groups
    double regret_max;
    double blind_mean; // regret of a choice at random, mean over groups
} ana_choice;

/// Scores the choices among some rows.
///
/// @param rows         [count] of runs
/// @param predicted_ms [count]; of equal ones the first is chosen
/// Time O(count * log(count)).
void ana_choice_score(const ana_measured_runs *runs, const int *rows, const double *predicted_ms,
                      int count, arena *memory, ana_choice *out);

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
    ana_choice predicted_choice;        // among predicted runs
    ana_choice all_choice;              // among fitted and predicted runs
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
