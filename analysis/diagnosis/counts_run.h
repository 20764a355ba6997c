/// Tokens per expert that a run has left: which files there are, and what they are of, before the
/// reader of counts (models/experts/expert_counts.h) is told what they must fit.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "models/experts/line_reader.h"

#include <stdbool.h>

/// What is known of the run beside its files.
typedef struct ana_counted_layout {
    int layer_count;     // transformer layers of the model
    int expert_count;    // of a layer
    int stage_count;     // pipeline stages of the run that wrote the files; they divide layer_count
    int expert_parallel; // ranks that share experts; 0: as the files say, which a CSV does not
} ana_counted_layout;

/// Counts of a run. Strings and arrays are carved from the arena given to the reader.
typedef struct ana_counted_run {
    const char *csv;        // path of the project's own format, or NULL: Megatron's files
    const char **files;     // [stage_count][expert_parallel] of Megatron's
    const int *first_layer; // [stage_count]
    int stage_count;
    int expert_parallel;
    int microbatch_count; // of an iteration; half of the rows where recomputation repeats them
    int last_iteration;
} ana_counted_run;

/// Looks at a CSV of counts, at one of Megatron's files, or at a folder that holds
/// rank<r>.jsonl or tokens_per_expert/rank<r>.jsonl.
///
/// Ranks are numbered stage by stage, and within a stage those that share experts follow each
/// other, as with Megatron's default order. Where a stage has several such groups the first one
/// counts.
///
/// @return STATUS_IO; STATUS_FORMAT naming file and line, or the folder: no files, a rank missing,
///         files that stages and experts do not divide; STATUS_INVALID: a CSV without
///         expert_parallel, or stages that do not divide the layers
///
/// Time: reads the first file, or the CSV, once.
status ana_counted_run_find(const char *path, const ana_counted_layout *layout, arena *memory,
                            ana_counted_run *run, error_message *err);

typedef enum ana_counts_format {
    ANA_COUNTS_CSV,      ///< the project's own
    ANA_COUNTS_MEGATRON, ///< JSON lines of one rank
} ana_counts_format;

/// What a file shows of its run.
typedef struct ana_counts_outline {
    int row_count;      // microbatches of the first line; of a CSV the largest microbatch + 1
    int local_count;    // experts of the first line; of a CSV 0
    bool is_repeated;   // the first line's rows come in pairs, as recomputation leaves them
    int last_iteration; // of any line
} ana_counts_outline;

/// Reads all that a reader has. Of Megatron's only the blocks `decoder` count.
///
/// @param name   of the file, for messages
/// @param memory for scratch
/// @return STATUS_FORMAT naming file and line: no JSON, no number, nothing of a decoder layer;
///         STATUS_IO. outline is then untouched.
status ana_counts_outline_read(model_line_reader *reader, const char *name,
                               ana_counts_format format, arena *memory, ana_counts_outline *outline,
                               error_message *err);
