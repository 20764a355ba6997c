/// A recipe for giving nodes of a running job back when re-packing needs them no more: a shell
/// script made from the plans of a run, for Slurm, for Kubernetes (a Job per size) or for the MIG
/// instances of one node, each of which then counts as a node of one GPU.
///
/// Slurm makes a running job smaller by whole nodes and never larger, keeps the node that runs the
/// batch script, and ends every job step that runs on a node which it takes back. So a node is
/// given back where no later plan of the run uses any of its GPUs, and the training is one job step
/// per size of the job, from checkpoint to checkpoint.
/// Source: scontrol(1), `update` of NumNodes and NodeList; Slurm's FAQ on shrinking jobs.
#pragma once

#include "balance/plan.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

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
