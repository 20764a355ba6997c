/// Predictions beside runs that were measured: how far off, whether the error bars hold, what a
/// choice by the predictions would have cost.
#pragma once

#include "analysis/calibration/calibration.h"
#include "analysis/calibration/real_runs.h"
#include "analysis/shards/spread.h"
#include "analysis/validate/explain.h"
#include "analysis/whatif/correction.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

typedef struct ana_validation_settings {
    int draw_count; // of what is uncertain, in each row; 0: no error bars
    // Bars are those of what is learned, where anything is, and draw_count is 0.
    const int *fit_rows; // [fit_count] that predictions of the others learn from, in their order
    int fit_count;       // 0: none
    const ana_correction *calibration; // of other runs; NULL: none
} ana_validation_settings;

/// One row.
typedef struct ana_validated_run {
    bool is_refused;       // it was not predicted; message says why
    bool is_learned;       // others learn from it: it has no part in the scores
    const char *message;   // else NULL
    const char *recompute; // what fits; static storage, or of the table
    bool is_allocated;     // peaks are of the framework's allocator alone, else of the device
    bool is_ambiguous;     // fp32: predicted between its two meanings
    bool has_bar;
    ana_time_parts parts;
    double predicted_ns; // with runs to learn from: its median
    double low_ns;       // 9 of 10 draws are between
    double high_ns;
    double measured_ns;
    double plain_ns;            // predicted, if nothing had been learned; 0: nothing was
    double peak_bytes;          // of the fullest GPU
    double measured_peak_bytes; // 0: not measured
    double tokens;              // of an iteration on one GPU
} ana_validated_run;

typedef struct ana_validation_summary {
    int row_count; // that were predicted
    int refused_count;
    int learned_count;       // rows that the others learned from
    double plain_error_mean; // of the predicted rows if nothing had been learned; NAN: nothing was
    int ambiguous_count;     // rows that say fp32
    ana_errors error;
    double coverage;    // share of rows whose measured time is within the bar; NAN: no bars
    int group_count;    // with more than one predicted row
    double regret_mean; // over groups: measured time of the row predicted fastest, over the least
                        // measured, less 1; NAN: no group
    double regret_max;
    double random_regret_mean; // of a choice at random
    double rank_correlation;   // Kendall's tau over all pairs within groups; NAN: no pair
    int memory_count;          // rows whose peak was measured
    ana_errors memory_error;   // NAN: none
} ana_validation_summary;

typedef struct ana_validation {
    const ana_real_runs *runs;
    ana_validation_settings settings;
    const char *const *names; // [runs->source.row_count] of ana_real_run_names
    ana_validated_run *rows;  // [runs->source.row_count]
    ana_validation_summary summary;
    const ana_explanation *explanation; // NULL: not asked for
    arena *memory;
} ana_validation;

/// Predicts every row and scores the predictions. What cannot be modelled is a refused row.
///
/// @param validation borrows runs; arrays are carved from memory
/// @return STATUS_FORMAT for a cell that is no value of its column, naming path and line; what
///         ana_spread_run and the calibration return
status ana_validate(ana_spread *spread, const ana_real_runs *runs,
                    const ana_validation_settings *settings, arena *memory,
                    ana_validation *validation, error_message *err);

/// Short names of the runs, by what tells them apart: the `case`, else model, hardware, GPUs,
/// degrees and what else it takes, "llama-3-8b gpus16 tp2"; "" where nothing but what was measured
/// differs.
///
/// @return [row_count] from memory
///
/// Time O(n log n).
const char *const *ana_real_run_names(const ana_real_runs *runs, arena *memory);

/// Scores rows that are there: for who has predictions from elsewhere.
void ana_validation_score(ana_validation *validation);

void ana_validation_write_json(const ana_validation *validation, text_buffer *out);

/// @param with_rows each row too
void ana_validation_write_text(const ana_validation *validation, bool with_rows, text_buffer *out);
