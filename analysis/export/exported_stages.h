/// What the stages of a plan hold as training frameworks name it: transformer blocks, and apart
/// from them the embedding before the first and the head behind the last.
#pragma once

#include "balance/plan.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

typedef struct ana_exported_stage {
    bool has_embedding; // the first stage, whether or not the plan counts the embedding as a layer
    bool has_head;      // the last stage
    int first_block;    // in [0, block count]
    int block_count;    // >= 0
} ana_exported_stage;

/// Counts the blocks of every stage. Where plan->embedding or plan->head say that the first or the
/// last layer is none, it is not counted.
///
/// @param stages      out, carved from memory: [rank_count * chunk_count] in model order
/// @param block_count out: of the model
/// @return STATUS_UNSUPPORTED naming stage and layer: the embedding is behind the first stage, or
///         the head before the last, which no framework does; STATUS_INVALID: the plan has no
///         block; STATUS_NO_MEMORY
status ana_exported_stages_of(const bal_plan *plan, arena *memory, ana_exported_stage **stages,
                              int *block_count, error_message *err);

/// Appends comment lines ("# ...") that say what the plan is, and what of it the file cannot say:
/// schedule, microbatches, the ranks of the cluster where they are not 0, 1, 2, ..., replicas.
///
/// @param runs the schedule that the framework runs with this file; NULL: the plan's own
void ana_exported_head_write(const bal_plan *plan, const char *runs, text_buffer *out);
