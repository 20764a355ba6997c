/// What launches a point of a study besides its plan: degrees, batch, precision, recomputation, in
/// the words of each framework.
#pragma once

#include "analysis/study/setup.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>

/// What a launcher is told. All of it is of one study.
typedef struct ana_launch {
    bool is_known; // false: a plan alone; the rest is then 0
    model_parallel parallel;
    model_dtype dtype; // MODEL_DTYPE_UNKNOWN: a trace's, which does not say
    int microbatch_size, sequence_length;
    int prediction_layer_count; // modules of multi-token prediction, on the last stage
    int64_t global_batch;       // sequences of all replicas
} ana_launch;

/// @param setup open; its first replicas' degrees count
ana_launch ana_launch_of(const ana_setup *setup);

/// Appends the options of Megatron-LM, one line each, indented. Appends nothing of a plan alone.
/// Source: megatron/training/arguments.py of core 0.16.
///
/// @return STATUS_UNSUPPORTED for a precision or recomputation that has no option, naming it
status ana_launch_megatron(const ana_launch *launch, text_buffer *out, error_message *err);

/// The same as overrides of a recipe of Megatron-Bridge, in Hydra's form.
status ana_launch_bridge(const ana_launch *launch, text_buffer *out, error_message *err);

/// The same as members of torchtitan's ParallelismConfig (0.3).
///
/// @return STATUS_UNSUPPORTED where experts are divided by tensors
status ana_launch_torchtitan(const ana_launch *launch, text_buffer *out, error_message *err);

/// The same as lines of a DeepSpeed configuration, in Python.
///
/// @return STATUS_UNSUPPORTED for degrees that its pipeline has not, naming them
status ana_launch_deepspeed(const ana_launch *launch, int microbatch_count, text_buffer *out,
                            error_message *err);
