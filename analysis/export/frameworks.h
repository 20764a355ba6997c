/// Plans as training frameworks take them: Megatron-LM, DeepSpeed, torchtitan; and orders of ops as
/// torch.distributed.pipelining does.
///
/// Every writer appends a file, or with as_json an object. On failure out is untouched.
#pragma once

#include "analysis/export/launch.h"
#include "balance/plan.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

typedef struct ana_export_how {
    bool as_json;
    bool is_split_only;       // frameworks that choose the order: whatever the plan's is
    const ana_launch *launch; // of a point of a study; NULL: not known
} ana_export_how;

/// The options of Megatron-LM, as an array of bash: PIPELINE_ARGS=(...).
///
/// A layout has a part per stage, separated by '|', in model order: E for the embedding, t*<n> for
/// n transformer layers, m for a module of multi-token prediction, L for the loss; a stage may be
/// empty. Stage i is virtual rank i / PP of pipeline rank i mod PP: Megatron places chunks
/// interleaved and in no other way. It runs 1F1B, or interleaved 1F1B with chunks, and takes no
/// order. Source: megatron/core/transformer/pipeline_parallel_layer_layout.py (since core 0.13).
///
/// @param how .is_split_only: of a plan of another schedule, or with an order, writes the split
/// @return STATUS_UNSUPPORTED: another placement, another schedule or order, or the embedding or
/// the
///         head on a stage of the middle; STATUS_INVALID: no block
status ana_export_megatron(const bal_plan *plan, const ana_export_how *how, arena *memory,
                           text_buffer *out, error_message *err);

/// The same as overrides of a recipe of Megatron-Bridge: a line each.
status ana_export_bridge(const bal_plan *plan, const ana_export_how *how, arena *memory,
                         text_buffer *out, error_message *err);

/// A subclass of DeepSpeed's PipelineModule, in Python: there is no option for given bounds. parts
/// counts LayerSpecs, whatever they are, and has an entry per stage and one more.
/// Source: deepspeed/runtime/pipe/module.py, PipelineModule._partition_layers.
///
/// @param before LayerSpecs in front of those that are the plan's layers, and after them
/// @return STATUS_UNSUPPORTED: several chunks per rank; a schedule that is not 1f1b; a stage
/// without any LayerSpec, which
///         DeepSpeed's engine cannot train. STATUS_INVALID: more than INT_MAX LayerSpecs
status ana_export_deepspeed(const bal_plan *plan, int before, int after, const ana_export_how *how,
                            arena *memory, text_buffer *out, error_message *err);

/// The settings of torchtitan, in Python: a list of module names per stage, in model order, called
/// as in its own models. Of the schedule's name only the placement counts when it is given a CSV:
/// as V for ZBVZeroBubble, else interleaved. Source: torchtitan/distributed/pipeline_parallel.py,
/// _pipeline_module_split and _build_pipeline_schedule.
///
/// @param schedule_csv path that the training reads
/// @return STATUS_INVALID: the path holds a quote, a backslash or a control character.
///         STATUS_UNSUPPORTED: a placement with two copies of a stage; a stage without any module
status ana_export_torchtitan(const bal_plan *plan, const char *schedule_csv,
                             const ana_export_how *how, arena *memory, text_buffer *out,
                             error_message *err);

/// The order of a schedule as the CSV that _PipelineScheduleRuntime loads ("compute_only"): a row
/// per rank, a cell per op: the stage in model order, then F, I (the gradient of the input, B
/// here), W or B (both gradients, BW here), then the microbatch; an overlapped pair is one cell,
/// "(0F7;7B3)OVERLAP_F_B". These are the letters of torch since 2.6.
/// Source: torch/distributed/pipelining/schedules.py, _Action and _load_csv.
///
/// PyTorch skips I on the first stage, which has nobody to send a gradient to, and does the whole
/// backward in W. So there B is written in place of I, and no W; that takes less time, and the
/// order that is read back is the one that PyTorch plays.
///
/// @param schedule one that bal_schedule_check accepts
/// @param is_exact writes I and W of the first stage, too
/// @return STATUS_UNSUPPORTED for a placement with two copies of a stage
status ana_export_pytorch(const bal_schedule *schedule, bool is_exact, text_buffer *out,
                          error_message *err);
