/// Rows of tokens per expert in, one checked table out: what both formats of expert_counts.h share.
#pragma once

#include "models/experts/expert_counts.h"

enum { MODEL_COUNTED_ITERATION_MAX = INT32_MAX - 1 };

/// An iteration that was counted.
typedef struct model_counts_sample {
    int iteration;
    int32_t *tokens; // [layer_count][M][expert_count]
    bool *has_row;   // [layer_count][M]
} model_counts_sample;

/// Zero-initialise all but shape and memory.
typedef struct model_counts_builder {
    const model_counts_shape *shape;
    arena *memory;                // of the table
    model_counts_sample *samples; // [capacity] of which count are used, ascending
    int count;
    int capacity;
    int last_microbatch; // of any row
} model_counts_builder;

/// A row with its place.
typedef struct model_counted_row {
    const char *place;     // file and line
    int iteration;         // in [0, MODEL_COUNTED_ITERATION_MAX]
    int layer;             // with experts: model_counts_check_layer
    int microbatch;        // in [0, M)
    const int32_t *tokens; // [expert_count] >= 0
} model_counted_row;

/// @return STATUS_FORMAT: beyond the model, or without experts
status model_counts_check_layer(const model_counts_shape *shape, const char *place, int64_t layer,
                                error_message *err);

/// @return STATUS_FORMAT: the row is there already or its sum is wrong; STATUS_INVALID: more than
///         MODEL_COUNTS_MAX counts; STATUS_NO_MEMORY
status model_counts_add(model_counts_builder *into, const model_counted_row *row,
                        error_message *err);

/// @param name   of the file, for messages
/// @param counts untouched on failure
/// @return STATUS_FORMAT: there is no row, or one is missing; STATUS_NO_MEMORY
status model_counts_finish(const model_counts_builder *from, const char *name,
                           model_expert_counts *counts, error_message *err);
