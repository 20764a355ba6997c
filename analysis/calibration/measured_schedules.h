/// Measured throughputs of pipeline schedules: what the ops of a stage take by profile, and what
/// the whole then reached. A calibration finds what the profile leaves out, and the simulator plays
/// the other schedules with it.
///
/// Columns: schedule (a name of the source's), order (a row of balance/schedule/schedule.h), model,
/// stages, microbatches, chunks, microbatch size, hidden size, attention heads, sequence length,
/// memory limit (in activations of one microbatch on a stage; 0: none; searched orders need one),
/// forward (ms), backward input (ms), backward weight (ms), send (ms), samples per GPU and s.
#pragma once

#include "base/arena.h"
#include "base/embedded.h"
#include "base/status.h"
#include "base/table.h"
#include "base/text.h"

#include <stdbool.h>

/// Tables that are part of the binary: "zero-bubble".
extern const embedded_file ana_measured_tables[];

/// Opens a file, or where there is none the table of that name. @return as table_open
status ana_measured_table_open(const char *path, arena *memory, table *out, error_message *err);

/// How the predicted rows of one schedule, or of all, compare with what was measured.
typedef struct ana_schedule_score {
    const char *schedule; // NULL: all
    int count;
    double error_mean;        // absolute, of throughput
    double error_signed_mean; // predicted / measured - 1
    double error_max;         // absolute
} ana_schedule_score;

/// One row as predicted.
typedef struct ana_schedule_row {
    int row;          // of the table
    double predicted; // samples per GPU and s
    double measured;
} ana_schedule_row;

typedef struct ana_schedule_calibration {
    int fitted_count;
    int predicted_count;
    double compute_factor;  // on the profiled times of ops
    double message_factor;  // share of send that each of an op's messages occupies its rank for
    double model_deviation; // standard deviation among models, relative
    double residual;        // of a row, relative
    int model_count;
    const char **models;   // [model_count]
    double *model_factors; // [model_count] 1 + the model's deviation
    int score_count;       // schedules, then all
    ana_schedule_score *scores;
    ana_schedule_row *rows; // [predicted_count]
} ana_schedule_calibration;

/// Fits some rows of a table and predicts others.
///
/// An op takes its profiled time times compute_factor and, for each message that it waits for or
/// sends, message_factor * send. Gauss-Newton steps on the simulated time fit compute_factor,
/// message_factor from an expected 0.5 +- 0.29, and a factor for each fitted model, drawn towards 1
/// (shrinkage.h). Iterations of searched orders last as long as the longest span (their optimizer
/// step needs no barrier), those of others as long as the makespan.
///
/// @return STATUS_FORMAT "path:line: ..." for a row that is malformed; STATUS_INVALID for orders
///         that cannot be built or fewer than four rows to fit; STATUS_INFEASIBLE for a memory
///         limit that no order fits
status ana_schedule_calibrate(const table *from, const int *fit_rows, int fit_count,
                              const int *predict_rows, int predict_count, arena *memory,
                              ana_schedule_calibration *out, error_message *err);

void ana_schedule_calibration_write_json(const ana_schedule_calibration *found, text_buffer *out);
void ana_schedule_calibration_write_text(const ana_schedule_calibration *found, const table *from,
                                         text_buffer *out);
