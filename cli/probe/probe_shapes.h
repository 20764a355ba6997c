/// The products of matrices that training a model is made of, for a probe to measure.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "exec/probe/probe_compute.h"
#include "models/cost/config.h"

typedef struct cli_probe_shapes {
    exec_probe_product *products; // [count] carved from memory
    int *repeats;                 // [count] how often the model has each, in one microbatch
    int count;
    exec_probe_attention attention;
    int64_t value_count; // activations inside the MLP of a layer
} cli_probe_shapes;

/// Products of one transformer layer and of the head over `tokens` rows, each as F, B and W have
/// it. With experts, one expert's, with as many rows as balanced routing gives it.
///
///         width differs between queries and values; STATUS_NO_MEMORY
status cli_probe_shapes_of(const model_config *config, int tokens, arena *memory,
                           cli_probe_shapes *shapes, error_message *err);
