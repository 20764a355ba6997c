/// How a model is trained: what the cost model is told, and the defaults where it is not.
#pragma once

#include "models/assumption.h"
#include "models/cost/config.h"
#include "models/cost/hardware.h"
#include "models/cost/layer_work.h"
#include "models/cost/parallel.h"

/// Zero-initialise, then fill by name what is known; a zero takes the default, and the costs say so
/// among their assumptions.
typedef struct model_training {
    int sequence_length;           // tokens; default 2048, or what the model can take if less
    int microbatch_size;           // samples; default 1
    model_dtype dtype;             // of weights and activations; default bfloat16
    const char *attention;         // "flash" (default, for every family), "flash-2" or "unfused"
    int state_bytes_per_parameter; // weights, gradients, optimizer, not sharded; default: Adam in
                                   // mixed precision, 2 + 4 + 12 (float32: 4 + 4 + 8)
    int gradient_bytes_per_parameter; // of them, and of what replicas reduce; default 4
    int layer_count;                  // transformer layers instead of the model's own number
    model_parallel parallel;
} model_training;

/// The same with all defaults filled in.
typedef struct model_training_choice {
    model_config config; // with layer_count layers
    model_shape shape;
    int state_bytes_per_parameter;
    model_parameter_bytes parameter_bytes; // state_bytes_per_parameter in its parts
} model_training_choice;

/// Fills in what the training leaves open and lists every choice.
///
/// @param origin where config was read; lives as long as the list's rows
/// @param choice untouched on failure
/// @return STATUS_INVALID: a field outside its limits, degrees that divide neither the model nor
///         the sequence, a sequence that exceeds what the model can take, no rate of the hardware
///         for the dtype, or state bytes that have no room for weight and gradient although they
///         are sharded
status model_training_choose(const model_training *training, const model_config *config,
                             const char *origin, const model_hardware *hardware,
                             model_assumption_list *list, model_training_choice *choice,
                             error_message *err);
