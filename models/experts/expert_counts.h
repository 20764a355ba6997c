/// Tokens per expert that were counted in a real run: our own CSV, and what Megatron-LM writes with
/// --save-tokens-per-expert-interval.
///
/// CSV: a header "iteration,layer,microbatch,expert_0,...,expert_<E-1>", then one line of
/// non-negative integers per layer and microbatch of every sampled iteration, in any order. Layers
/// are transformer layers, counted from 0; layers without experts have no line. A file with
/// microbatch 0 alone holds for all microbatches.
///
/// Megatron: DIR/tokens_per_expert/rank<r>.jsonl, a line {"iter":i,"block":"decoder","layer":l,
/// "tpe":[[n,...],...]} per layer and saved iteration, tpe[microbatch][local expert]; other blocks
/// (mtp) are passed over. l counts within the pipeline stage or chunk, so the stage's first layer
/// is added; a file holds the experts of its rank alone, so files of the ranks that share experts
/// are read side by side in the order of their expert rank.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_COUNTS_MAX = 1 << 28, MODEL_COUNT_FILES_MAX = 1024 };

/// What the counts must fit.
typedef struct model_counts_shape {
    int layer_count;      // transformer layers
    const bool *is_moe;   // [layer_count]
    int expert_count;     // of a layer
    int microbatch_count; // M of the training
    int64_t row_tokens;   // that the experts of a row have together, k x n; 0: not stated
} model_counts_shape;

/// Counts of the sampled iterations. Carved from the arena given to the reader.
typedef struct model_expert_counts {
    int layer_count;
    int expert_count;
    int microbatch_stride;
    int microbatch_count; // M, or 1 where one row holds for all
    int sample_count;     // >= 1
    const int *iteration; // [sample_count] ascending
    const int32_t *const
        *tokens; // [sample_count] -> [layer_count][microbatch_stride][expert_count]
} model_expert_counts;

/// Reads our CSV.
///
/// @param counts untouched on failure
/// @return STATUS_FORMAT naming file and line: a header with other columns or another number of
///         experts than the model's, a number that is none, is negative or exceeds 2^31 - 1, a
///         layer without experts or beyond the model, a microbatch beyond M, a row that occurs
///         twice or whose sum is not row_tokens (0 where that is not stated); naming the iteration:
///         a layer or microbatch that is missing, or whose experts have more tokens together than
///         those of most other layers, which usually have as many; an empty file. STATUS_INVALID:
///         more than MODEL_COUNTS_MAX counts; STATUS_IO.
status model_expert_counts_read_csv(const char *path, const model_counts_shape *shape,
                                    arena *memory, model_expert_counts *counts, error_message *err);

/// Files of one pipeline stage (or of one of its chunks).
typedef struct model_count_stage {
    int first_layer;          // transformer layer that the stage calls 0
    const char *const *paths; // [path_count] in the order of expert ranks
    int path_count;           // divides the experts
} model_count_stage;

/// Reads Megatron's files. With recomputation a microbatch is written twice, in F and when B
/// computes it again, in the order in which the rank came to it: where a line has 2 M rows, a row
/// that equals the oldest one not yet met again is taken for its repetition.
///
/// @return as model_expert_counts_read_csv; also STATUS_FORMAT: no JSON, a file that ends within a
///         line, files of a stage whose lines do not go together, neither M nor 2 M microbatches,
///         2 M that are not M pairs
status model_expert_counts_read_megatron(const model_count_stage *stages, int stage_count,
                                         const model_counts_shape *shape, arena *memory,
                                         model_expert_counts *counts, error_message *err);

/// What a file of Megatron's shows of its run.
typedef struct model_counts_outline {
    int microbatch_count; // of the first line; half of its rows where recomputation repeats them
    int local_count;      // experts of the rank
    int last_iteration;   // of any line
} model_counts_outline;

/// Reads a whole file. Only the blocks `decoder` count.
///
/// @return STATUS_FORMAT naming file and line: no JSON, no number, nothing of a decoder layer;
///         STATUS_IO. outline is then untouched.
status model_counts_outline_read(const char *path, model_counts_outline *outline,
                                 error_message *err);

/// The last sample at or before iteration; the first one where there is none. O(log samples).
int model_expert_counts_sample(const model_expert_counts *counts, int iteration);

/// Tokens per expert of a layer and microbatch of a sample. [expert_count]
const int32_t *model_expert_counts_row(const model_expert_counts *counts, int sample, int layer,
                                       int microbatch);
