/// What a model is made of, read from a Hugging Face config.json.
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "models/cost/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum model_norm {
    MODEL_NORM_LAYER, ///< LayerNorm: scale and shift
    MODEL_NORM_RMS    ///< RMSNorm: scale only
} model_norm;

/// What a layer has.
typedef enum model_layer_part {
    MODEL_LAYER_ATTENTION = 1 << 0,
    MODEL_LAYER_MAMBA = 1 << 1, ///< a state-space mixer (Mamba-2) in place of attention
    MODEL_LAYER_MLP = 1 << 2,   ///< MLP or experts
    MODEL_LAYER_WINDOW = 1 << 3 ///< its attention sees sliding_window keys; others see all
} model_layer_part;

/// A decoder-only transformer. Sizes are of the whole model, not of a tensor-parallel slice.
typedef struct model_config {
    const char *model_type; // family, as config.json spells it; static storage
    int layer_count;        // transformer layers, without embedding and head
    int hidden_size;
    int head_count;
    int kv_head_count; // divides head_count
    int query_key_dim; // per head
    int value_dim;     // per head; differs from query_key_dim in latent attention only
    int kv_rank;       // latent attention (DeepSeek): width of compressed keys and values; else 0
    int query_rank;    // latent attention: width of compressed queries, 0 if they are not
    int rope_dim;      // latent attention: the part of query_key_dim that carries positions
    int ffn_size;      // MLP of a layer that is not MoE; 0 if there is none
    int expert_count;  // 0: no layer is MoE
    int expert_top_k;  // experts per token
    int expert_group_count; // groups of experts of which a token meets some; 0: none
    int expert_group_top_k; // so many of them
    int expert_ffn_size;
    int expert_latent_size; // experts take rows so wide, compressed before and expanded after them
                            // (Nemotron 3's LatentMoE); 0: rows of hidden_size
    int shared_ffn_size;    // expert that every token takes; 0: none
    int64_t router_weight_count; // of a MoE layer, matrices only
    int64_t router_bias_count;   // of a MoE layer
    int vocabulary_size;         // of embedding and head
    int position_count;          // longest sequence; 0: not said
    int sliding_window;          // keys that a query sees; 0: all before it
    int prediction_layer_count;  // modules of multi-token prediction, beside layer_count
    bool has_learned_positions;  // else rotary
    double rotary_base;          // rope_theta, 10000 where the file has none; 0: not rotary
    bool has_tied_embeddings;    // the head multiplies by the embedding's weights
    bool has_gated_mlp;          // SwiGLU: three matrices instead of two
    bool has_query_key_value_bias;
    bool has_attention_output_bias;
    bool has_mlp_bias;
    bool has_query_key_norm;    // per head, before rotation
    bool has_embedding_dropout; // each dropout that is not zero keeps a mask
    bool has_attention_dropout;
    bool has_residual_dropout;
    model_norm norm;
    model_dtype dtype;                // of the checkpoint; says nothing about training
    const bool *is_moe;               // [layer_count]
    const unsigned char *layer_parts; // [layer_count] model_layer_part; NULL: every layer has
                                      // attention, windowed where there is a window, and an MLP
    int mamba_head_count;             // of layers with a state-space mixer; 0: there are none
    int mamba_head_dim;
    int mamba_state_size;
    int mamba_group_count; // of heads that share their inputs to and from the state
    int mamba_conv_size;
    int mamba_chunk_size; // tokens that are mixed by products at once
} model_config;

/// The model as one of its layers sees it: 0 heads, an MLP of width 0, no window or no state-space
/// mixer where this layer has none of it. 0 <= layer < layer_count.
model_config model_config_layer(const model_config *config, int layer);

/// Numbers of a row that experts take and give.
int model_config_expert_width(const model_config *config);

/// Blocks with a norm and a residual of such a view: mixer and MLP.
int model_config_block_count(const model_config *view, int layer);

/// Reads a shipped config by its name (models/configs), or a file by its path. Keys that are not
/// needed are ignored, as these files hold many; a nested `text_config` is read instead of the
/// whole where there is one. Families: gpt2, llama, mistral, mixtral, llama_moe, qwen2, qwen3,
/// qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3, gpt_oss, nemotron_h; within them every spelling
/// of a field is accepted.
///
/// @param changes other values at some places of the file, as json_change takes them; NULL: none
/// @param config  is_moe is carved from memory; untouched on failure
/// @return STATUS_FORMAT naming key and value: missing though needed, outside its limits, or
///         contradicting another, or for a change of a key that the file has not, naming the
///         nearest; STATUS_UNSUPPORTED naming a model_type or a feature that is not modelled;
///         STATUS_IO.
status model_config_open(const char *name_or_path, const char *changes, arena *memory,
                         model_config *config, error_message *err);

/// As model_config_open, from a document that is open.
status model_config_read(const json_document *document, arena *memory, model_config *config,
                         error_message *err);

// How many parameters a model has, layer by layer and as published (parameters.c).

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
