/// Measured iteration times of dense transformers, read from a table with one run per row, and
/// conditions that choose among its rows.
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

#include "base/arena.h"
#include "base/embedded.h"
#include "base/status.h"
#include "base/table.h"

#include <stdbool.h>
#include <stdint.h>

/// How a dense transformer was trained, as far as the time of an iteration depends on it.
typedef struct ana_run_shape {
    int64_t gpu_count; // tensor * data * pipeline
    int64_t global_batch_count;
    int64_t microbatch_size; // sequences of one microbatch of one replica
    int64_t hidden_size;
    int64_t head_count; // attention heads
    int64_t layer_count;
    int64_t sequence_length; // tokens
    int64_t vocabulary_size;
    int64_t tensor_degree;
    int64_t data_degree;
    int64_t pipeline_degree; // 1F1B, even split
} ana_run_shape;

enum { ANA_SHAPE_FIELDS = 11 };

/// Microbatches of one replica and iteration.
static inline int64_t ana_run_microbatches(const ana_run_shape *shape)
{
    return shape->global_batch_count / (shape->microbatch_size * shape->data_degree);
}

/// Name of the nth field of ana_run_shape, as the column is called, and its value.
const char *ana_run_field_name(int field);
int64_t ana_run_field(const ana_run_shape *shape, int field);
int64_t *ana_run_field_place(ana_run_shape *shape, int field);

#define ANA_RUN_FIELD_MAX 10000000
#define ANA_RUN_MS_MIN 1e-6
#define ANA_RUN_MS_MAX 1e9

/// What the numbers of one run owe each other. @return STATUS_FORMAT naming them
status ana_run_shape_check(const ana_run_shape *shape, error_message *err);

/// Tables of measured runs that are part of the binary.
extern const embedded_file ana_measured_tables[];

/// Opens a file, or where there is none the table of that name. @return as table_open
status ana_measured_table_open(const char *path, arena *memory, table *out, error_message *err);

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
///         microbatches per replica, fewer layers than stages
status ana_measured_runs_read(const table *from, int64_t vocabulary_size, arena *memory,
                              ana_measured_runs *out, error_message *err);

/// Rows of a table that fulfil conditions: "pipeline parallelism=2,4,# layers=24".
///
/// COLUMN=V pieces with commas between them. A piece without '=' is a further value of the column
/// before it, '|' between values does the same, and so does naming the column again: a row matches
/// if every named column has one of its values. Numbers are compared as numbers.
///
/// @param what for messages, for example "--fit"
/// @param rows out, in the order of the file; carved from memory
/// @return STATUS_INVALID for a piece that is no condition, a column that the table has not (the
///         nearest is named), or if no row matches, naming the first condition that no row fulfils
status ana_rows_matching(const char *what, const char *conditions, const table *from, arena *memory,
                         int **rows, int *count, error_message *err);
