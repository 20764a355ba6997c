/// Runs that somebody measured, one per row of a table, as `dynmo validate` reads them.
///
/// A column has a name and may have others, under which published tables spell it; README.md lists
/// them. Every column may be absent and every cell empty: then a constant that the caller gives
/// holds, and else what README.md says stands for it.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/table.h"
#include "base/text.h"

#include <stdbool.h>

typedef enum ana_real_column {
    ANA_REAL_MODEL,
    ANA_REAL_LAYERS,
    ANA_REAL_HIDDEN,
    ANA_REAL_HEADS,
    ANA_REAL_VOCABULARY,
    ANA_REAL_PARAMETERS, // of the model, in 10^9: tells models apart where none is named
    ANA_REAL_HARDWARE,
    ANA_REAL_GPUS,
    ANA_REAL_GPUS_PER_NODE,
    ANA_REAL_PRECISION,
    ANA_REAL_ATTENTION,
    ANA_REAL_KERNELS,
    ANA_REAL_LOSS,
    ANA_REAL_BLOCKING_LAUNCHES, // this and the next: flags that a study calls the same
    ANA_REAL_CUDA_GRAPHS,
    ANA_REAL_GRADIENT_BYTES,
    ANA_REAL_RECOMPUTE,
    ANA_REAL_DROPOUT,
    ANA_REAL_GLOBAL_BATCH,
    ANA_REAL_MICROBATCH,
    ANA_REAL_MICROBATCHES,
    ANA_REAL_SEQUENCE,
    ANA_REAL_TP,
    ANA_REAL_PP,
    ANA_REAL_VP,
    ANA_REAL_CP,
    ANA_REAL_EP,
    ANA_REAL_ETP,
    ANA_REAL_DP,
    ANA_REAL_FSDP,
    ANA_REAL_SHARDING,
    ANA_REAL_SEQUENCE_PARALLEL,
    ANA_REAL_TENSOR_OVERLAP,
    ANA_REAL_EXPERT_OVERLAP,
    ANA_REAL_EXPERT_DEDUPLICATION,
    ANA_REAL_SCHEDULE,
    ANA_REAL_LAYERS_PER_STAGE,
    ANA_REAL_MEASURED_MS,
    ANA_REAL_MEASURED_S,
    ANA_REAL_TOKENS_PER_S,
    ANA_REAL_MEASURED_BYTES, // of the device: what the framework allocates, and the reserve
    ANA_REAL_ALLOCATED_GIB,  // of the framework's allocator alone
    ANA_REAL_GROUP,
    ANA_REAL_CASE, // a run's name, whose words may hold sizes: "l12_tp1_pp2_dp4"
    ANA_REAL_COLUMN_COUNT
} ana_real_column;

typedef struct ana_real_runs {
    table source;
    int column[ANA_REAL_COLUMN_COUNT];           // of the source; -1: it has none
    const char *constant[ANA_REAL_COLUMN_COUNT]; // where the cell is empty; NULL: none
    const char **named; // [rows * ANA_REAL_COLUMN_COUNT] sizes in the run's name, before constants;
                        // NULL elements: none; NULL: no such column
    const char *ignored; // names of the source's other columns, with commas
} ana_real_runs;

/// Finds the columns of a table.
///
/// @param renamed   "COLUMN=NAME,...": the column of ours that stands in the file as NAME; ""
/// @param constants "COLUMN=VALUE,...": the value of empty cells; ""
/// @return STATUS_INVALID for a piece of either that is no such pair, or names no column of ours
///         (the nearest is named) or of the file; STATUS_FORMAT if two columns of the file mean the
///         same, or none holds a measured time
status ana_real_runs_read(const table *from, const char *renamed, const char *constants,
                          arena *memory, ana_real_runs *out, error_message *err);

/// Our name of a column.
const char *ana_real_name(ana_real_column column);

/// The text of a cell, or the size in the run's name, or the constant, or "".
const char *ana_real_text(const ana_real_runs *runs, int row, ana_real_column column);

/// Whether a column or a constant says it for any row.
bool ana_real_says(const ana_real_runs *runs, ana_real_column column);

/// A cell as a whole number within [min, max]; fallback where there is none.
///
/// @return STATUS_FORMAT "path:line: column: ..." naming cell and limits
status ana_real_int(const ana_real_runs *runs, int row, ana_real_column column, int min, int max,
                    int fallback, int *value, error_message *err);

/// A cell as a number within [min, max]; fallback where there is none.
status ana_real_number(const ana_real_runs *runs, int row, ana_real_column column, double min,
                       double max, double fallback, double *value, error_message *err);

// The study of one measured run: what would have been asked before it was rented (real_study.c).

/// What was measured of a run.
typedef struct ana_real_measured {
    double iteration_ns;
    double peak_bytes; // of the fullest GPU; 0: not measured
    bool is_allocated; // peak_bytes is of the framework's allocator alone
    bool is_ambiguous; // float32, and not said whether products are of TF32
    double tokens;     // of an iteration, all replicas
    int gpu_count;
} ana_real_measured;

/// Appends the study of a row, one point, and says what was measured of it.
///
/// Memory is not limited. What the row leaves open is what launchers do: README.md has the table.
///
/// @param recompute of ana_real_recompute
/// @param memory    of what is read meanwhile
/// @return STATUS_FORMAT "path:line: ..." for a cell outside its limits, an unknown word, GPUs that
///         the degrees do not divide, neither a model nor its sizes, no batch, or nothing measured
status ana_real_study_write(const ana_real_runs *runs, int row, const char *recompute,
                            arena *memory, text_buffer *out, ana_real_measured *measured,
                            error_message *err);

/// What may be computed again in a row, from what costs least time; NULL: no further attempt. A run
/// that was measured has fitted: the first that fits is taken.
///
/// @param memory of what is read meanwhile
const char *ana_real_recompute(const ana_real_runs *runs, int row, int attempt, arena *memory);

/// Of rows that name none.
#define ANA_REAL_HARDWARE_DEFAULT "h100-sxm"

/// What holds for rows that do not say otherwise, one "name: value" after the other.
extern const char ana_real_defaults[];

/// Appends the name of the group of a row: runs of the same training on the same machine, among
/// which one would have chosen.
void ana_real_group(const ana_real_runs *runs, int row, text_buffer *out);
