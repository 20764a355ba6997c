/// The split of a plan as DeepSpeed takes it: the parts of a PipelineModule.
///
/// DeepSpeed has no option for given bounds, so that the file is a subclass of PipelineModule for
/// the training script. parts counts LayerSpecs, whatever they are (embedding, functions, norm,
/// head), and has an entry per stage and one more. DeepSpeed has one stage per rank and runs 1F1B.
/// Source: deepspeed/runtime/pipe/module.py, PipelineModule._partition_layers.
#pragma once

#include "balance/plan.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

typedef struct ana_deepspeed_parts {
    int stage_count;
    const int *parts; // [stage_count + 1]
} ana_deepspeed_parts;

/// @param before LayerSpecs in front of those that are the plan's layers, and behind them
/// @param parts  out, carved from memory
/// @return STATUS_UNSUPPORTED naming the rule: several chunks per rank; a stage without any
///         LayerSpec, which DeepSpeed's engine cannot train. STATUS_INVALID: more than INT_MAX
///         LayerSpecs. STATUS_NO_MEMORY.
status ana_deepspeed_parts_of(const bal_plan *plan, int before, int behind, arena *memory,
                              ana_deepspeed_parts *parts, error_message *err);

/// Appends the subclass, in Python.
void ana_export_deepspeed(const bal_plan *plan, const ana_deepspeed_parts *parts, text_buffer *out);

/// Writes {"num_stages":P,"parts":[...]}.
void ana_export_deepspeed_json(const ana_deepspeed_parts *parts, json_writer *writer);
