/// Tokens per expert that a run of Megatron-LM has left: which files there are, and what they are
/// of, before the reader of counts (models/experts/expert_counts.h) is told what they must fit.
#pragma once

#include "base/arena.h"
#include "base/status.h"

/// What is known of the run beside its files.
typedef struct ana_counted_layout {
    int layer_count;  // transformer layers of the model
    int expert_count; // of a layer
    int stage_count;  // pipeline stages of the run that wrote the files; they divide layer_count
} ana_counted_layout;

/// Counts of a run. Strings and arrays are carved from the arena given to the reader.
typedef struct ana_counted_run {
    const char **files;     // [stage_count][expert_parallel]
    const int *first_layer; // [stage_count]
    int stage_count;
    int expert_parallel;  // ranks that share experts
    int microbatch_count; // of an iteration; half of the rows where recomputation repeats them
    int last_iteration;
} ana_counted_run;

/// Looks at one of Megatron's files, or at a folder that holds rank<r>.jsonl or
/// tokens_per_expert/rank<r>.jsonl.
///
/// Ranks are numbered stage by stage, and within a stage those that share experts follow each
/// other, as with Megatron's default order. Where a stage has several such groups the first one
/// counts.
///
/// @return STATUS_IO; STATUS_FORMAT naming file and line, or the folder: no files, a rank missing,
///         files that stages and experts do not divide; STATUS_INVALID: stages that do not
///         divide the layers
///
/// Time: reads the first file once.
status ana_counted_run_find(const char *path, const ana_counted_layout *layout, arena *memory,
                            ana_counted_run *run, error_message *err);
