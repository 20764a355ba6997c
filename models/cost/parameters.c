#include "models/cost/config.h"

#include "models/cost/layer_work.h"
#include "models/cost/saturating.h"

/// Entries of the two or three matrices of an MLP or expert between rows and inner vectors of these
/// widths, without biases.
static int64_t mlp_weight_count(const model_config *config, int width, int ffn_size)
{
    const int64_t matrices = config->has_gated_mlp ? 3 : 2;
    return saturating_multiply(matrices * width, ffn_size);
}

static int64_t norm_parameters(const model_config *config)
{
    return (int64_t)config->hidden_size * (config->norm == MODEL_NORM_LAYER ? 2 : 1);
}

/// Biases and inner norms of attention.
static int64_t attention_vector_parameters(const model_config *config)
{
    int64_t count = config->kv_rank + config->query_rank; // one RMSNorm each
    if (config->has_query_key_value_bias) {
        count += (int64_t)config->head_count * config->query_key_dim +
                 (int64_t)config->kv_head_count * (config->query_key_dim + config->value_dim);
    }
    if (config->has_attention_output_bias) count += config->hidden_size;
    if (config->has_query_key_norm) count += 2 * (int64_t)config->query_key_dim;
    return count;
}

static int64_t mlp_bias_count(const model_config *config, int width, int ffn_size)
{
    if (!config->has_mlp_bias || ffn_size == 0) return 0;
    return (int64_t)ffn_size * (config->has_gated_mlp ? 2 : 1) + width;
}

static int64_t expert_parameters(const model_config *config, int expert_count)
{
    const int width = model_config_expert_width(config);
    return saturating_multiply(mlp_weight_count(config, width, config->expert_ffn_size) +
                                   mlp_bias_count(config, width, config->expert_ffn_size),
                               expert_count);
}

int64_t model_mamba_width(const model_config *config)
{
    return (int64_t)config->mamba_head_count * config->mamba_head_dim;
}

int64_t model_mamba_state_width(const model_config *config)
{
    return 2 * (int64_t)config->mamba_group_count * config->mamba_state_size;
}

int64_t model_mamba_input_width(const model_config *config)
{
    return 2 * model_mamba_width(config) + model_mamba_state_width(config) +
           config->mamba_head_count;
}

/// Convolution with its bias, three numbers a head, norm of the gated output.
static int64_t mamba_vector_parameters(const model_config *config)
{
    const int64_t mixed = model_mamba_width(config) + model_mamba_state_width(config);
    return mixed * (config->mamba_conv_size + 1) + 3 * (int64_t)config->mamba_head_count +
           model_mamba_width(config);
}

/// Entries of a layer's matrices with so many experts.
static int64_t layer_weights(const model_config *whole, int layer, int expert_count)
{
    const model_config view = model_config_layer(whole, layer);
    const model_config *config = &view;
    const int64_t mixer = model_mixer_weight_count(config);
    if (!config->is_moe[layer]) {
        return saturating_add(mixer,
                              mlp_weight_count(config, config->hidden_size, config->ffn_size));
    }
    const int64_t shared = saturating_add(
        mlp_weight_count(config, config->hidden_size, config->shared_ffn_size),
        saturating_multiply(2 * (int64_t)config->hidden_size, config->expert_latent_size));
    const int64_t experts = expert_parameters(config, expert_count);
    return saturating_add(saturating_add(mixer, experts),
                          saturating_add(shared, config->router_weight_count));
}

/// Biases and norms of a layer.
static int64_t layer_vectors(const model_config *whole, int layer)
{
    const model_config view = model_config_layer(whole, layer);
    int64_t count = model_config_block_count(&view, layer) * norm_parameters(&view);
    if (view.head_count > 0) count += attention_vector_parameters(&view);
    if (view.mamba_head_count > 0) count += mamba_vector_parameters(&view);
    if (view.is_moe[layer]) return count + view.router_bias_count;
    return count + mlp_bias_count(&view, view.hidden_size, view.ffn_size);
}

int64_t model_layer_weight_count(const model_config *config, int layer)
{
    return layer_weights(config, layer, config->expert_count);
}

static int64_t layer_parameters(const model_config *config, int layer, int expert_count)
{
    return saturating_add(layer_weights(config, layer, expert_count), layer_vectors(config, layer));
}

int64_t model_layer_parameters(const model_config *config, int layer)
{
    return layer_parameters(config, layer, config->expert_count);
}

int64_t model_layer_expert_parameters(const model_config *config, int layer)
{
    return config->is_moe[layer] ? expert_parameters(config, config->expert_count) : 0;
}

/// Of a layer's parameters, those that one token meets: expert_top_k of its experts.
static int64_t layer_active_parameters(const model_config *config, int layer)
{
    return layer_parameters(config, layer, config->expert_top_k);
}

int64_t model_embedding_parameters(const model_config *config)
{
    const int64_t rows = (int64_t)config->vocabulary_size +
                         (config->has_learned_positions ? config->position_count : 0);
    return saturating_multiply(rows, config->hidden_size);
}

int64_t model_head_parameters(const model_config *config)
{
    return norm_parameters(config) +
           saturating_multiply(config->vocabulary_size, config->hidden_size);
}

/// Everything but the layers, tied weights once.
static int64_t outer_parameters(const model_config *config)
{
    const int64_t head =
        config->has_tied_embeddings ? norm_parameters(config) : model_head_parameters(config);
    return saturating_add(model_embedding_parameters(config), head);
}

int64_t model_total_parameters(const model_config *config)
{
    int64_t count = outer_parameters(config);
    for (int layer = 0; layer < config->layer_count; layer++) {
        count = saturating_add(count, model_layer_parameters(config, layer));
    }
    return count;
}

int64_t model_active_parameters(const model_config *config)
{
    int64_t count = outer_parameters(config);
    for (int layer = 0; layer < config->layer_count; layer++) {
        count = saturating_add(count, layer_active_parameters(config, layer));
    }
    return count;
}
