/// How many parameters a model has, layer by layer and as published.
#pragma once

#include "models/cost/config.h"

#include <stdint.h>

/// Entries of all matrices of a transformer layer, those of all experts and of the router included,
/// without biases and norms. 0 <= layer < layer_count.
int64_t model_layer_weight_count(const model_config *config, int layer);

/// Parameters of a transformer layer, all experts included. 0 <= layer < layer_count.
int64_t model_layer_parameters(const model_config *config, int layer);

/// Of them, those of the experts that tokens are routed to; 0 in a layer without.
int64_t model_layer_expert_parameters(const model_config *config, int layer);

/// Token embedding and learned positions.
int64_t model_embedding_parameters(const model_config *config);

/// Final norm and the head's matrix. Tied weights count here as well: a pipeline keeps a copy of
/// them on its last stage.
int64_t model_head_parameters(const model_config *config);

/// Parameters of the model as published: tied weights once. At most 2^53.
int64_t model_total_parameters(const model_config *config);

/// As model_total_parameters, with the experts that one token meets.
int64_t model_active_parameters(const model_config *config);

/// Of a state-space mixer: its width, that of what it reads into its state and out of it, and that
/// of all that its first matrix makes (gate, input, both of the state, one step a head).
int64_t model_mamba_width(const model_config *config);
int64_t model_mamba_state_width(const model_config *config);
int64_t model_mamba_input_width(const model_config *config);
