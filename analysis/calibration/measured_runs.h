/// Measured iteration times, read from a table with one run per row.
///
/// Columns, by name or by a shorter one (either in the file and on the command line):
///
///     global batch (gbs), micro batch (mbs), hidden size (hidden), # layers (layers),
///     sequence length (seq), tensor parallelism (tp), data parallelism (dp),
///     pipeline parallelism (pp), iteration time (ms) (time)      needed
///     # GPUs (gpus)            checked against tp * dp * pp
///     attention heads (heads)  hidden size / 64 where it is absent
///     vocabulary (vocab)       the caller's where it is absent
///
/// Other columns are only for conditions.
#pragma once

#include "analysis/calibration/run_shape.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/table.h"
#include "base/text.h"

typedef struct ana_measured_runs {
    table source;
    ana_run_shape *shapes; // [source.row_count]
    double *iteration_ms;  // [source.row_count], > 0
    bool vocabulary_is_given;
} ana_measured_runs;

/// Makes runs of a table's rows.
///
/// @param vocabulary_size of rows that do not have it
/// @return STATUS_FORMAT "path:line: ..." for a missing column, a number out of its limits, GPUs
///         that are not the product of the degrees, a batch that is not a whole number of
///         microbatches per replica, fewer layers than stages; STATUS_NO_MEMORY
status ana_measured_runs_read(const table *from, int64_t vocabulary_size, arena *memory,
                              ana_measured_runs *out, error_message *err);

/// The column that a name or a short name stands for; -1 if the table has none.
int ana_runs_column(const table *from, const char *name);

/// As text_suggestion, of the table's columns and the short names.
const char *ana_runs_suggestion(const table *from, const char *name,
                                char out[TEXT_SUGGESTION_BYTES]);

/// Name of the nth field of ana_run_shape, as the column is called, and its value.
const char *ana_run_field_name(int field);
int64_t ana_run_field(const ana_run_shape *shape, int field);
