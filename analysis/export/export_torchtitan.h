/// The split of a plan as torchtitan takes it: module_fqns_per_model_part, and beside it where the
/// order of the ops is.
///
/// A list of module names per stage, in model order. torchtitan takes from the schedule's name only
/// how stages are placed when it is given a CSV: as V for ZBVZeroBubble, else interleaved. The
/// order is the CSV's (analysis/export/export_pytorch.h). Source:
/// torchtitan/distributed/pipeline_parallel.py, _pipeline_module_split and
/// _build_pipeline_schedule.
#pragma once

#include "analysis/export/exported_stages.h"
#include "balance/plan.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

/// What the modules of the model are called, and where the schedule is.
typedef struct ana_torchtitan_names {
    const char *const *embeddings; // [embedding_count] of the first stage: "tok_embeddings"
    int embedding_count;
    const char *block;        // of a block, with "{}" in place of its number: "layers.{}"
    const char *norm;         // of the last stage: "norm"; "": none
    const char *head;         // of the last stage: "lm_head"; "": none
    const char *schedule_csv; // path that the training reads
} ana_torchtitan_names;

/// Refuses names without meaning, and plans that torchtitan cannot split so.
///
/// @param stages [rank_count * chunk_count] of ana_exported_stages_of
/// @return STATUS_INVALID: block has not exactly one "{}", or a name holds a quote, a backslash or
///         a control character. STATUS_UNSUPPORTED: a placement with two copies of a stage; a stage
///         without any module
status ana_torchtitan_check(const bal_plan *plan, const ana_exported_stage *stages,
                            const ana_torchtitan_names *names, error_message *err);

/// Appends the settings, in Python.
void ana_export_torchtitan(const bal_plan *plan, const ana_exported_stage *stages,
                           const ana_torchtitan_names *names, text_buffer *out);

/// Writes them as an object.
void ana_export_torchtitan_json(const bal_plan *plan, const ana_exported_stage *stages,
                                const ana_torchtitan_names *names, json_writer *writer);
