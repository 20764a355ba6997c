/// How long the collectives inside a layer add to its passes: tensor, context and expert
/// parallelism. PARALLELISM.md has the formulas.
#pragma once

#include "models/cost/layer_work.h"

#include <stdint.h>

/// What a pass waits for. W has no collectives of its own.
typedef struct model_collectives {
    int64_t tensor_ns;     // all-reduces, or gathers and reduce-scatters
    int64_t mlp_tensor_ns; // of them, those of the MLP or the experts
    int64_t context_ns; // of the exchange of keys and values, what the attention core does not hide
    int64_t expert_ns;  // all-to-alls of balanced routing, out and back
    int64_t last_tensor_ns; // of tensor_ns in F, what a layer without experts ends with
    int64_t last_expert_ns; // of expert_ns in F, the way back, if B can do without
} model_collectives;

/// Of a transformer layer.
///
/// @param groups       of shape->parallel (model_parallel_groups)
/// @param attention_ns of the core in this pass: every step of the exchange but the first runs
///                     beside an equal part of it
model_collectives model_layer_collectives(const model_config *config, const model_shape *shape,
                                          const model_groups *groups, int layer, model_pass pass,
                                          int64_t attention_ns);

/// Of an embedding whose rows are divided: their sum, and with sequence parallelism the gradient.
model_collectives model_embedding_collectives(const model_config *config, const model_shape *shape,
                                              const model_groups *groups, model_pass pass);

/// Of a head whose columns are divided: its input, three numbers per token for the loss, and the
/// gradient of the input.
model_collectives model_head_collectives(const model_config *config, const model_shape *shape,
                                         const model_groups *groups, model_pass pass);
