/// Layer costs where there is no trace: work of a layer against the roofline of a GPU.
#pragma once

#include "balance/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "models/assumption.h"
#include "models/config.h"
#include "models/hardware.h"
#include "models/layer_work.h"

#include <stdint.h>

/// How the model is trained. Zero-initialise, then fill by name what is known; a zero takes the
/// default, and the costs say so among their assumptions.
typedef struct model_training {
    int sequence_length;           // tokens; default 2048, or what the model can take if less
    int microbatch_size;           // samples; default 1
    model_dtype dtype;             // of weights and activations; default bfloat16
    const char *attention;         // "flash" (default, for every family) or "unfused"
    int state_bytes_per_parameter; // weights, gradients, optimizer; default: mixed-precision Adam,
                                   // 2 + 4 + 12 (float32: 4 + 4 + 8)
} model_training;

/// Costs of embedding, layer_count transformer layers and head, in this order, embedding and head
/// pinned. Everything is carved from the arena given to model_costs_build.
typedef struct model_costs {
    bal_layer_costs layers; // layer_count = config.layer_count + 2, one column, with split; the
                            // head counts tied weights as its own, as it keeps a copy of them
    const int64_t *forward_flop;         // [layers.layer_count]
    const int64_t *backward_input_flop;  // [layers.layer_count]
    const int64_t *backward_weight_flop; // [layers.layer_count]
    int64_t total_parameters;            // as published: tied weights once
    int64_t active_parameters;           // that one token meets
    model_config config;
    model_hardware hardware;
    model_shape shape; // with defaults filled in
    int state_bytes_per_parameter;
    const model_assumption *assumptions; // [assumption_count] every input, in a fixed order
    int assumption_count;
} model_costs;

/// Time of work on the GPU: FLOP at its dense rate times efficiency, or bytes at its bandwidth
/// times efficiency, whichever takes longer; rounded to the nearest ns, at most INT64_MAX / 4.
///
/// @param flop_per_s, bytes_per_s > 0, efficiency included
int64_t model_roofline_ns(model_work work, double flop_per_s, double bytes_per_s);

/// Time of all parts of a pass, one after the other.
///
/// @param hardware must know the rate of dtype (asserted)
int64_t model_work_ns(const model_layer_work *work, const model_hardware *hardware,
                      model_dtype dtype);

/// Computes the costs of every layer.
///
/// @param config_origin, hardware_origin where both were read; named among the assumptions
/// @param costs arrays are carved from memory; strings of config and hardware are shared
/// @return STATUS_INVALID: a field of training is outside its limits, sequence_length exceeds what
///         the model can take, hardware has no rate for the dtype, or a cost of a layer exceeds
///         INT64_MAX / 4; STATUS_NO_MEMORY. costs is then untouched.
status model_costs_build(const model_config *config, const model_hardware *hardware,
                         const model_training *training, const char *config_origin,
                         const char *hardware_origin, arena *memory, model_costs *costs,
                         error_message *err);

/// Opens config and hardware, each a shipped name or a path, and computes the costs.
///
/// @return as model_config_open, model_hardware_open and model_costs_build
status model_costs_from_files(const char *config_name_or_path, const char *hardware_name_or_path,
                              const model_training *training, arena *memory, model_costs *costs,
                              error_message *err);
