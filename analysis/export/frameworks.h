/// Plans as training frameworks take them: Megatron-LM, DeepSpeed, torchtitan; and orders of ops as
/// torch.distributed.pipelining does.
///
/// Every writer appends a file, or with as_json an object. On failure out is untouched.
#pragma once

#include "analysis/study/setup.h"
#include "balance/plan.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

// What launches a point of a study besides its plan: degrees, batch, precision, recomputation, in
// the words of each framework.

/// What a launcher is told. All of it is of one study.
typedef struct ana_launch {
    bool is_known; // false: a plan alone; the rest is then 0
    model_parallel parallel;
    model_dtype dtype; // MODEL_DTYPE_UNKNOWN: a trace's, which does not say
    int microbatch_size, sequence_length;
    int prediction_layer_count; // modules of multi-token prediction, on the last stage
    int64_t global_batch;       // sequences of all replicas
    int rank_count, chunk_count;
    bool has_experts;
    bool has_mixers;         // state-space ones: layers that are not alike
    bool overlaps_experts;   // their exchange, with other work
    bool overlaps_reduction; // of gradients, with the backward
} ana_launch;

/// @param setup open; its first replicas' degrees count
ana_launch ana_launch_of(const ana_setup *setup);

/// Whether Megatron is told to send tokens once to each GPU, rather than once to each expert.
bool ana_launch_sends_once(const ana_launch *launch);

/// Appends the options of Megatron-LM, one line each, indented. Appends nothing of a plan alone.
/// Source: megatron/training/arguments.py of core 0.16.
///
/// @return STATUS_UNSUPPORTED for a precision or recomputation that has no option, naming it
status ana_launch_megatron(const ana_launch *launch, text_buffer *out, error_message *err);

/// The same as overrides of a recipe of Megatron-Bridge, in Hydra's form.
status ana_launch_bridge(const ana_launch *launch, text_buffer *out, error_message *err);

/// The same as members of torchtitan's ParallelismConfig (0.3); and, as Python, what is no member.
///
/// @return STATUS_UNSUPPORTED where experts are divided by tensors, for a precision that takes a
///         converter of the model, and for a recomputation that has no class
status ana_launch_torchtitan(const ana_launch *launch, text_buffer *out, error_message *err);
status ana_launch_torchtitan_rest(const ana_launch *launch, text_buffer *out, error_message *err);

/// The same as lines of a DeepSpeed configuration, in Python.
///
/// @return STATUS_UNSUPPORTED for degrees and recomputations that its pipeline has not, naming them
status ana_launch_deepspeed(const ana_launch *launch, int microbatch_count, text_buffer *out,
                            error_message *err);

typedef struct ana_export_how {
    bool as_json;
    bool is_split_only;       // frameworks that choose the order: whatever the plan's is
    const ana_launch *launch; // of a point of a study; NULL: not known
} ana_export_how;

/// Those that take a plan, by their names on the command line.
typedef enum ana_framework {
    ANA_FRAMEWORK_ANY,
    ANA_FRAMEWORK_MEGATRON,
    ANA_FRAMEWORK_BRIDGE,
    ANA_FRAMEWORK_PYTORCH,
    ANA_FRAMEWORK_TORCHTITAN,
    ANA_FRAMEWORK_DEEPSPEED,
    ANA_FRAMEWORK_COUNT
} ana_framework;

/// "any", "megatron", "megatron-bridge", "pytorch", "torchtitan", "deepspeed".
extern const char *const ana_framework_names[ANA_FRAMEWORK_COUNT];

/// Whether the plan of a point can be written for a framework, by its writer below and its
/// defaults.
///
/// @param memory for scratch
/// @return what the writer refuses
status ana_export_check(ana_framework framework, const bal_plan *plan, const ana_launch *launch,
                        arena *memory, error_message *err);

/// The one schedule that Megatron plays with so many chunks per rank.
const char *ana_megatron_schedule(int chunk_count);

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

#define ANA_TORCHTITAN_CSV_DEFAULT "schedule.csv"

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
/// @param schedule one that bal_schedule_check accepts; of a plan: ana_export_order
/// @param is_exact writes I and W of the first stage, too
/// @return STATUS_UNSUPPORTED for a placement with two copies of a stage
status ana_export_pytorch(const bal_schedule *schedule, bool is_exact, text_buffer *out,
                          error_message *err);

/// The order of a plan: the one that is in it, or that its schedule has.
///
/// @return STATUS_INVALID for a searched schedule without an order; what bal_schedule_build says
status ana_export_order(const bal_plan *plan, arena *memory, bal_schedule *schedule,
                        error_message *err);

// A recipe for giving nodes of a running job back when re-packing needs them no more: a shell
// script made from the plans of a run, for Slurm, for Kubernetes (a Job per size) or for the MIG
// instances of one node, each of which then counts as a node of one GPU.
//
// Slurm makes a running job smaller by whole nodes and never larger, keeps the node that runs the
// batch script, and ends every job step that runs on a node which it takes back. So a node is
// given back where no later plan of the run uses any of its GPUs, and the training is one job step
// per size of the job, from checkpoint to checkpoint.
// Source: scontrol(1), `update` of NumNodes and NodeList; Slurm's FAQ on shrinking jobs.

/// A plan, and the iteration from which on it is in force.
typedef struct ana_plan_step {
    int from_iteration;
    bal_plan plan;
} ana_plan_step;

/// What a recipe is made from. Borrowed for the call.
typedef struct ana_slurm_shrink {
    const char *manager;        // "slurm-shrink", "kubernetes-jobs" or "mig": the template
    const char *origin;         // names run and row, for the recipe's head and for messages
    const ana_plan_step *steps; // [step_count] iterations ascend from 0; the plan of the start is
                                // on all ranks
    int step_count;
    int end_iteration; // iterations of the run
    int gpus_per_rank; // >= 1
    int gpus_per_node; // >= 1; nodes are consecutive GPUs, as in bal_gpu_layout
} ana_slurm_shrink;

/// Appends the recipe. Tasks are GPUs in the order of the nodes; plans are written with the ranks
/// of the job step that they begin, numbered anew without those that are given back.
///
/// @return STATUS_INVALID: no plan releases ranks; released ranks make further replicas; no node
///         is free for good, or only the one with the batch script; a job step would have a node of
///         which only some GPUs are used. STATUS_FORMAT for a plan of ranks that the run does not
///         have. out is then untouched.
///
/// Time O(steps x (replicas x ranks + nodes)).
status ana_slurm_shrink_write(const ana_slurm_shrink *shrink, arena *memory, text_buffer *out,
                              error_message *err);
