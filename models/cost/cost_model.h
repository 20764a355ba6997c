/// Layer costs where there is no trace: work of a layer against the roofline of a GPU.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"
#include "models/assumption.h"
#include "models/cost/config.h"
#include "models/cost/hardware.h"
#include "models/cost/kernel_time.h"
#include "models/cost/layer_work.h"
#include "models/cost/parallel.h"

#include <stdbool.h>
#include <stdint.h>

// How a model is trained: what the cost model is told, and the defaults where it is not
// (training_settings.c).

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

/// What a pass is made of. The first four are the work of model_layer_work; what is recomputed is
/// in them.
typedef enum model_cost_part {
    MODEL_COST_PROJECTION,  ///< attention's matrices; of the head: its matrix
    MODEL_COST_ATTENTION,   ///< the core
    MODEL_COST_MLP,         ///< matrices of MLP or experts and router
    MODEL_COST_ELEMENTWISE, ///< norms, residuals, activation; head: softmax
    MODEL_COST_TENSOR,      ///< collectives of tensor and sequence parallelism
    MODEL_COST_CONTEXT,     ///< exchange of keys and values, as far as the core does not hide it
    MODEL_COST_EXPERT,      ///< all-to-alls of balanced routing
    MODEL_COST_HOST,        ///< starting kernels, as far as it takes longer than all of the above
    MODEL_COST_SHARDING,    ///< weights and gradients of sharded replicas, as far as the rest of
                            ///< the pass does not hide them
    MODEL_COST_PART_COUNT
} model_cost_part;

/// "projection", "attention", "mlp", "elementwise", "tensor", "context", "expert", "host" or
/// "sharding".
/// Static storage.
const char *model_cost_part_name(model_cost_part part);

/// Costs of embedding, layer_count transformer layers and head, in this order, embedding and head
/// pinned: those of one GPU, be it one of several in its stage. Modules of multi-token prediction
/// are in the head's row. Everything is carved from the arena given to model_costs_build.
typedef struct model_costs {
    bal_layer_costs layers; // layer_count = config.layer_count + 2, one column, with split; the
                            // head counts tied weights as its own, as it keeps a copy of them
    const int64_t *flop[MODEL_PASS_COUNT]; // [layers.layer_count] what is recomputed included
    // [layers.layer_count] each; over the parts they sum up to the times in layers
    const int64_t *part_ns[MODEL_PASS_COUNT][MODEL_COST_PART_COUNT];
    double forward_flop;       // of one microbatch over all GPUs of a replica, without the copies
                               // of work that tensor groups make, and what is recomputed
    int64_t total_parameters;  // of the whole model, as published: tied weights once
    int64_t active_parameters; // of the whole model, that one token meets
    model_config config;       // of the whole model
    model_hardware hardware;
    model_shape shape; // with defaults filled in
    model_groups groups;
    int64_t working_bytes; // that a GPU holds for a while beside state and activations, at most:
                           // what B makes again of a layer, weights of two layers gathered by
                           // sharding, gradients of one before they are scattered
    int64_t reserve_bytes; // that no tensor has: CUDA's context, buffers of NCCL, what the
                           // allocator cannot use
    int64_t update_ns;     // of the optimizer, for the parameters of all rows that a GPU steps
    int state_bytes_per_parameter; // before sharding
    model_parameter_bytes parameter_bytes;
    const model_assumption *assumptions; // [assumption_count] every input, in a fixed order
    int assumption_count;
} model_costs;

/// Computes the costs of every layer.
///
/// @param config_origin, hardware_origin where both were read; named among the assumptions
/// @param costs arrays are carved from memory; strings of config and hardware are shared
/// @return as model_training_choose; STATUS_INVALID if a cost of a layer exceeds INT64_MAX / 4, or
/// if what is kept is to wait on a host to which the hardware names no link. costs is then
/// untouched.
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

/// Plain state in the caller's memory, filled by model_source_init.
typedef struct model_source {
    const model_costs *costs;
    bool was_asked;
} model_source;

/// Makes source answer with costs.
///
/// @param source borrowed as long as the result is used, as are costs
bal_cost_source model_source_init(model_source *source, const model_costs *costs);

/// Parts that a case of dynamism may touch: what they leave of a pass (other collectives, launches)
/// no case touches.
typedef enum model_part {
    MODEL_PART_PROJECTION, ///< attention's matrices
    MODEL_PART_ATTENTION,  ///< the core: scores, softmax, values
    MODEL_PART_MLP,        ///< matrices of MLP or experts and router
    MODEL_PART_ELEMENTWISE,
    MODEL_PART_EXCHANGE, ///< of keys and values among the ranks of a context group
    MODEL_PART_COUNT
} model_part;

/// How much of a layer's time each of them takes. Carved from the arena given to whoever fills it.
typedef struct model_layer_shares {
    int layer_count;
    const double *share[MODEL_PASS_COUNT][MODEL_PART_COUNT]; // [layer_count], >= 0; the sum over
                                                             // the parts of a pass is at most 1.
                                                             // Of embedding and head all 0
    const double *weight_of_backward; // [layer_count] W / (B + W), for bases that do not split them
} model_layer_shares;

/// Shares of modelled costs: time of a part over time of the pass.
void model_layer_shares_of_costs(const model_costs *costs, arena *memory,
                                 model_layer_shares *shares);
