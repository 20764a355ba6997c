/// The split of a plan as Megatron-LM takes it: --pipeline-model-parallel-layout.
///
/// A layout has a part per stage, separated by '|', in model order: E for the embedding, t*<n> for
/// n transformer layers, L for the loss; a stage may be empty. Stage i is virtual rank i / PP of
/// pipeline rank i mod PP: Megatron places chunks interleaved and in no other way. It runs 1F1B, or
/// interleaved 1F1B with chunks, whatever the plan's schedule.
/// Source: megatron/core/transformer/pipeline_parallel_layer_layout.py (since core 0.13).
#pragma once

#include "balance/plan.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

typedef struct ana_megatron_layout {
    const char *text; // "Et*6|t*9|t*9|t*8L"
    int block_count;  // --num-layers
    int first_blocks; // of the first and of the last stage, where those between have equally many
    int last_blocks;  // and each has some: what Megatron before core 0.13 can say too; else -1
} ana_megatron_layout;

/// @param layout out, its text carved from memory
/// @return STATUS_UNSUPPORTED naming the placement, or what ana_exported_stages_of refuses;
///         STATUS_INVALID: no block; STATUS_NO_MEMORY
status ana_megatron_layout_of(const bal_plan *plan, arena *memory, ana_megatron_layout *layout,
                              error_message *err);

/// Appends the options as an array of bash: PIPELINE_ARGS=(...), what of the plan they cannot say
/// in comments.
void ana_export_megatron(const bal_plan *plan, const ana_megatron_layout *layout, text_buffer *out);

/// Writes an object with the names of Megatron's configuration.
void ana_export_megatron_json(const bal_plan *plan, const ana_megatron_layout *layout,
                              json_writer *writer);
