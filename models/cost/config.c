#include "models/cost/config.h"

#include "models/shipped.h"

#include <stdio.h>
#include <string.h>

enum {
    LAYERS_MAX = 1 << 14,
    WIDTH_MAX = 1 << 21, // hidden, ffn, heads, ranks, positions in units of 1
    VOCABULARY_MAX = 1 << 26,
    POSITIONS_MAX = 1 << 28,
    EXPERTS_MAX = 1 << 12
};

/// How a family spells its experts.
typedef enum moe_form {
    MOE_NONE,
    MOE_MIXTRAL,
    MOE_LLAMA,
    MOE_QWEN,
    MOE_DEEPSEEK,
    MOE_NEMOTRON
} moe_form;

/// What config.json leaves to the code of the family.
typedef struct model_family {
    const char *model_type;
    moe_form moe;
    model_norm norm;
    bool has_learned_positions;
    bool has_gated_mlp;
    bool has_bias; // everywhere, with no key to change it
    bool has_query_key_value_bias;
    bool has_query_key_norm;
    bool has_kv_heads_default; // as many as heads; else the key is needed
    bool has_tied_default;
    bool has_window_key; // sliding_window alone switches the window on
    double dropout_default;
} model_family;

static const model_family families[] = {
    {"gpt2", MOE_NONE, MODEL_NORM_LAYER, .has_learned_positions = true, .has_bias = true,
     .has_kv_heads_default = true, .has_tied_default = true, .dropout_default = 0.1},
    {"llama", MOE_NONE, MODEL_NORM_RMS, .has_gated_mlp = true, .has_kv_heads_default = true},
    {"mistral", MOE_NONE, MODEL_NORM_RMS, .has_gated_mlp = true, .has_window_key = true},
    {"mixtral", MOE_MIXTRAL, MODEL_NORM_RMS, .has_gated_mlp = true, .has_window_key = true},
    {"llama_moe", MOE_LLAMA, MODEL_NORM_RMS, .has_gated_mlp = true, .has_kv_heads_default = true},
    {"qwen2", MOE_NONE, MODEL_NORM_RMS, .has_gated_mlp = true, .has_query_key_value_bias = true},
    {"qwen3", MOE_NONE, MODEL_NORM_RMS, .has_gated_mlp = true, .has_query_key_norm = true},
    {"qwen2_moe", MOE_QWEN, MODEL_NORM_RMS, .has_gated_mlp = true,
     .has_query_key_value_bias = true},
    {"qwen3_moe", MOE_QWEN, MODEL_NORM_RMS, .has_gated_mlp = true, .has_query_key_norm = true},
    {"deepseek_v2", MOE_DEEPSEEK, MODEL_NORM_RMS, .has_gated_mlp = true,
     .has_kv_heads_default = true},
    {"deepseek_v3", MOE_DEEPSEEK, MODEL_NORM_RMS, .has_gated_mlp = true,
     .has_kv_heads_default = true},
    {"gpt_oss", MOE_MIXTRAL, MODEL_NORM_RMS, .has_gated_mlp = true, .has_bias = true,
     .has_window_key = true},
    {"nemotron", MOE_NONE, MODEL_NORM_LAYER, .has_gated_mlp = false},
    {"nemotron_h", MOE_NEMOTRON, MODEL_NORM_RMS, .has_gated_mlp = false},
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

enum { SPELLINGS_MAX = 4 };
typedef struct field {
    const char *spelling[SPELLINGS_MAX]; // NULL after the last
    int min;
    int max;
} field;

static const field layers_field = {{"num_hidden_layers", "n_layer"}, 1, LAYERS_MAX};
static const field hidden_field = {{"hidden_size", "n_embd"}, 1, WIDTH_MAX};
static const field ffn_field = {{"intermediate_size", "n_inner"}, 1, WIDTH_MAX};
static const field heads_field = {{"num_attention_heads", "n_head"}, 1, WIDTH_MAX};
static const field kv_heads_field = {{"num_key_value_heads"}, 1, WIDTH_MAX};
static const field head_dim_field = {{"head_dim"}, 1, WIDTH_MAX};
static const field vocabulary_field = {{"vocab_size"}, 1, VOCABULARY_MAX};
static const field positions_field = {
    {"max_position_embeddings", "n_positions", "n_ctx"}, 1, POSITIONS_MAX};
static const field window_field = {{"sliding_window"}, 1, POSITIONS_MAX};
static const field experts_field = {
    {"num_local_experts", "num_experts", "n_routed_experts"}, 0, EXPERTS_MAX};
static const field top_k_field = {
    {"num_experts_per_tok", "num_experts_per_token", "num_selects", "experts_per_token"},
    1,
    EXPERTS_MAX};
static const field groups_field = {{"n_group"}, 1, EXPERTS_MAX};
static const field group_top_k_field = {{"topk_group"}, 1, EXPERTS_MAX};
static const field expert_ffn_field = {{"moe_intermediate_size"}, 1, WIDTH_MAX};
static const field shared_experts_field = {{"n_shared_experts"}, 0, EXPERTS_MAX};
static const field shared_ffn_field = {{"shared_expert_intermediate_size"}, 1, WIDTH_MAX};
static const field shared_width_field = {{"moe_shared_expert_intermediate_size"}, 1, WIDTH_MAX};
static const field expert_latent_field = {{"moe_latent_size"}, 1, WIDTH_MAX};
static const field mamba_heads_field = {{"mamba_num_heads"}, 1, WIDTH_MAX};
static const field mamba_head_dim_field = {{"mamba_head_dim"}, 1, WIDTH_MAX};
static const field mamba_state_field = {{"ssm_state_size"}, 1, WIDTH_MAX};
static const field mamba_groups_field = {{"n_groups"}, 1, WIDTH_MAX};
static const field mamba_conv_field = {{"conv_kernel"}, 1, WIDTH_MAX};
static const field mamba_chunk_field = {{"chunk_size"}, 1, WIDTH_MAX};
static const field sparse_step_field = {{"decoder_sparse_step"}, 1, LAYERS_MAX};
static const field first_dense_field = {{"first_k_dense_replace"}, 0, LAYERS_MAX};
static const field moe_frequency_field = {{"moe_layer_freq"}, 1, LAYERS_MAX};
static const field prediction_field = {{"num_nextn_predict_layers"}, 0, LAYERS_MAX};
static const field query_rank_field = {{"q_lora_rank"}, 1, WIDTH_MAX};
static const field kv_rank_field = {{"kv_lora_rank"}, 1, WIDTH_MAX};
static const field nope_dim_field = {{"qk_nope_head_dim"}, 1, WIDTH_MAX};
static const field rope_dim_field = {{"qk_rope_head_dim"}, 1, WIDTH_MAX};
static const field value_dim_field = {{"v_head_dim"}, 1, WIDTH_MAX};

/// The first spelling that is there; missing, under the first spelling, if none is.
static json_value find_field(json_value object, const field *wanted)
{
    for (int s = 0; s < SPELLINGS_MAX && wanted->spelling[s] != NULL; s++) {
        const json_value member = json_member(object, wanted->spelling[s]);
        if (!json_is_missing(member)) return member;
    }
    return json_member(object, wanted->spelling[0]);
}

/// Reads a field under any of its spellings; two that disagree are a contradiction.
static status read_optional(json_value object, const field *wanted, int fallback, int *out,
                            error_message *err)
{
    const char *read_as = NULL;
    int found = fallback;
    for (int s = 0; s < SPELLINGS_MAX && wanted->spelling[s] != NULL; s++) {
        const json_value member = json_member(object, wanted->spelling[s]);
        if (json_is_missing(member)) continue;
        int value = 0;
        TRY(json_int(member, wanted->min, wanted->max, &value, err));
        if (read_as != NULL && value != found) {
            return json_error(member, STATUS_FORMAT, err, "%d contradicts %s %d", value, read_as,
                              found);
        }
        read_as = wanted->spelling[s];
        found = value;
    }
    *out = found;
    return STATUS_OK;
}

static status read_needed(json_value object, const field *wanted, const char *model_type, int *out,
                          error_message *err)
{
    const json_value member = find_field(object, wanted);
    if (json_is_missing(member)) {
        const char *other = wanted->spelling[1];
        return json_error(json_member(object, wanted->spelling[0]), STATUS_FORMAT, err,
                          "missing%s%s%s; model_type '%s' needs it",
                          other != NULL ? " (as is '" : "", other != NULL ? other : "",
                          other != NULL ? "')" : "", model_type);
    }
    return read_optional(object, wanted, 0, out, err);
}

static status read_flag(json_value object, const char *key, bool fallback, bool *out,
                        error_message *err)
{
    const json_value member = json_member(object, key);
    *out = fallback;
    return json_is_missing(member) ? STATUS_OK : json_bool(member, out, err);
}

/// True if a dropout probability is not zero.
static status read_dropout(json_value object, const char *key, double fallback, bool *out,
                           error_message *err)
{
    const json_value member = json_member(object, key);
    double probability = fallback;
    if (!json_is_missing(member)) TRY(json_double(member, 0, 1, &probability, err));
    *out = probability > 0;
    return STATUS_OK;
}

static status find_family(json_value object, const model_family **family, error_message *err)
{
    const char *model_type = NULL;
    TRY(json_string(json_member(object, "model_type"), &model_type, err));
    const char *names[FAMILY_COUNT];
    for (int row = 0; row < FAMILY_COUNT; row++) {
        names[row] = families[row].model_type;
        if (strcmp(names[row], model_type) == 0) {
            *family = &families[row];
            return STATUS_OK;
        }
    }
    const char *nearest = text_nearest(model_type, names, FAMILY_COUNT);
    return json_error(json_member(object, "model_type"), STATUS_UNSUPPORTED, err,
                      "'%.60s' is no family that is modelled (%s%s)", model_type,
                      nearest != NULL ? "the nearest is "
                                      : "gpt2, llama, mistral, mixtral, "
                                        "llama_moe, qwen2[_moe], qwen3[_moe], "
                                        "deepseek_v2, deepseek_v3, gpt_oss, nemotron, nemotron_h",
                      nearest != NULL ? nearest : "");
}

static status read_dtype(json_value object, model_config *config, error_message *err)
{
    const char *const spellings[] = {"torch_dtype", "dtype"};
    const char *found = NULL;
    for (int s = 0; s < 2; s++) {
        const json_value member = json_member(object, spellings[s]);
        if (json_is_missing(member)) continue;
        const char *name = NULL;
        TRY(json_string(member, &name, err));
        if (found != NULL && strcmp(found, name) != 0) {
            return json_error(member, STATUS_FORMAT, err, "'%.40s' contradicts torch_dtype '%.40s'",
                              name, found);
        }
        found = name;
    }
    config->dtype = found != NULL ? model_dtype_find(found) : MODEL_DTYPE_UNKNOWN;
    return STATUS_OK;
}

static status read_attention_heads(json_value object, const model_family *family,
                                   model_config *config, error_message *err)
{
    TRY(read_needed(object, &heads_field, family->model_type, &config->head_count, err));
    if (family->has_kv_heads_default) {
        TRY(read_optional(object, &kv_heads_field, config->head_count, &config->kv_head_count,
                          err));
    } else {
        TRY(read_needed(object, &kv_heads_field, family->model_type, &config->kv_head_count, err));
    }
    if (config->head_count % config->kv_head_count != 0) {
        return json_error(find_field(object, &kv_heads_field), STATUS_FORMAT, err,
                          "%d does not divide the %d attention heads", config->kv_head_count,
                          config->head_count);
    }
    return STATUS_OK;
}

static status read_head_dim(json_value object, model_config *config, error_message *err)
{
    int head_dim = 0;
    TRY(read_optional(object, &head_dim_field, 0, &head_dim, err));
    if (head_dim == 0) {
        if (config->hidden_size % config->head_count != 0) {
            return json_error(find_field(object, &heads_field), STATUS_FORMAT, err,
                              "%d does not divide hidden_size %d, and head_dim is not given",
                              config->head_count, config->hidden_size);
        }
        head_dim = config->hidden_size / config->head_count;
    }
    config->query_key_dim = head_dim;
    config->value_dim = head_dim;
    return STATUS_OK;
}

/// DeepSeek's latent attention: every head has its own keys and values, made from one compressed
/// vector per token.
static status read_latent_attention(json_value object, const model_family *family,
                                    model_config *config, error_message *err)
{
    int nope_dim = 0;
    const char *type = family->model_type;
    TRY(read_needed(object, &kv_rank_field, type, &config->kv_rank, err));
    TRY(read_needed(object, &nope_dim_field, type, &nope_dim, err));
    TRY(read_needed(object, &rope_dim_field, type, &config->rope_dim, err));
    TRY(read_needed(object, &value_dim_field, type, &config->value_dim, err));
    TRY(read_optional(object, &query_rank_field, 0, &config->query_rank, err));
    config->query_key_dim = nope_dim + config->rope_dim;
    if (config->kv_head_count != config->head_count) {
        return json_error(find_field(object, &kv_heads_field), STATUS_FORMAT, err,
                          "%d contradicts num_attention_heads %d: in latent attention every head "
                          "has its own keys",
                          config->kv_head_count, config->head_count);
    }
    return STATUS_OK;
}

static status read_biases(json_value object, const model_family *family, model_config *config,
                          error_message *err)
{
    bool attention_bias = false;
    TRY(read_flag(object, "attention_bias", family->has_bias, &attention_bias, err));
    TRY(read_flag(object, "mlp_bias", family->has_bias, &config->has_mlp_bias, err));
    if (family->moe == MOE_DEEPSEEK && attention_bias) {
        return json_error(json_member(object, "attention_bias"), STATUS_UNSUPPORTED, err,
                          "true is not modelled for latent attention");
    }
    config->has_query_key_value_bias = attention_bias || family->has_query_key_value_bias;
    config->has_attention_output_bias = attention_bias;
    config->has_query_key_norm = family->has_query_key_norm;
    return STATUS_OK;
}

static status read_dropouts(json_value object, const model_family *family, model_config *config,
                            error_message *err)
{
    if (!family->has_learned_positions) {
        return read_dropout(object, "attention_dropout", 0, &config->has_attention_dropout, err);
    }
    const double fallback = family->dropout_default;
    TRY(read_dropout(object, "embd_pdrop", fallback, &config->has_embedding_dropout, err));
    TRY(read_dropout(object, "attn_pdrop", fallback, &config->has_attention_dropout, err));
    return read_dropout(object, "resid_pdrop", fallback, &config->has_residual_dropout, err);
}

/// Which layers see a window only, where layer_types says it layer by layer.
static status read_layer_types(json_value types, const model_family *family, arena *memory,
                               model_config *config, error_message *err)
{
    unsigned char *parts = NULL;
    if (json_count(types) != config->layer_count) {
        return json_error(types, STATUS_FORMAT, err,
                          "has %d entries, needs one for each of %d layers", json_count(types),
                          config->layer_count);
    }
    if (family->has_window_key) {
        parts = arena_array(memory, (size_t)config->layer_count, sizeof *parts);
        config->layer_parts = parts;
    }
    for (int layer = 0; layer < json_count(types); layer++) {
        const char *type = NULL;
        TRY(json_string(json_element(types, layer), &type, err));
        const bool slides = parts != NULL && strcmp(type, "sliding_attention") == 0;
        if (!slides && strcmp(type, "full_attention") != 0) {
            return json_error(json_element(types, layer), STATUS_UNSUPPORTED, err,
                              "'%.40s' is not modelled, only full_attention", type);
        }
        if (parts == NULL) continue;
        parts[layer] = MODEL_LAYER_ATTENTION | MODEL_LAYER_MLP | (slides ? MODEL_LAYER_WINDOW : 0);
    }
    return STATUS_OK;
}

/// Reads the window, and which layers have it.
static status read_window(json_value object, const model_family *family, arena *memory,
                          model_config *config, error_message *err)
{
    const json_value types = json_member(object, "layer_types");
    bool uses_window = false;
    if (!json_is_missing(types)) TRY(read_layer_types(types, family, memory, config, err));
    TRY(read_flag(object, "use_sliding_window", false, &uses_window, err));
    if (uses_window) {
        return json_error(json_member(object, "use_sliding_window"), STATUS_UNSUPPORTED, err,
                          "true is not modelled: it gives layers different windows");
    }
    if (!family->has_window_key) return STATUS_OK;
    return read_optional(object, &window_field, 0, &config->sliding_window, err);
}

/// The letter of a layer of Nemotron-H: M a state-space mixer, * attention, - an MLP, E experts.
/// Older files have them in a row, newer ones a list of words.
static status read_letter(json_value value, const char *pattern, int layer, char *letter,
                          error_message *err)
{
    static const char *const words[] = {"mamba", "attention", "mlp", "moe"};
    static const char letters[] = "M*-E";
    const char *word = NULL;
    if (pattern != NULL) {
        *letter = pattern[layer];
        if (*letter != '\0' && strchr(letters, *letter) != NULL) return STATUS_OK;
        return json_error(value, STATUS_UNSUPPORTED, err, "'%c' is none of M, *, - and E", *letter);
    }
    TRY(json_string(json_element(value, layer), &word, err));
    for (int known = 0; known < 4; known++) {
        *letter = letters[known];
        if (strcmp(words[known], word) == 0) return STATUS_OK;
    }
    return json_error(json_element(value, layer), STATUS_UNSUPPORTED, err,
                      "'%.40s' is none of mamba, attention, mlp and moe", word);
}

static status read_pattern(json_value object, arena *memory, model_config *config, bool *is_moe,
                           error_message *err)
{
    const json_value list = json_member(object, "layers_block_type");
    const json_value row = json_member(object, "hybrid_override_pattern");
    const json_value value = json_is_array(list) ? list : row;
    const char *pattern = NULL;
    if (!json_is_array(list)) TRY(json_string(value, &pattern, err));
    const int count = pattern != NULL ? (int)strlen(pattern) : json_count(value);
    if (count != config->layer_count) {
        return json_error(value, STATUS_FORMAT, err, "has %d %s, needs one for each of %d layers",
                          count, pattern != NULL ? "letters" : "entries", config->layer_count);
    }
    unsigned char *parts = arena_array(memory, (size_t)config->layer_count, sizeof *parts);
    for (int layer = 0; layer < config->layer_count; layer++) {
        char letter = 0;
        TRY(read_letter(value, pattern, layer, &letter, err));
        parts[layer] = letter == 'M'   ? MODEL_LAYER_MAMBA
                       : letter == '*' ? MODEL_LAYER_ATTENTION
                                       : MODEL_LAYER_MLP;
        is_moe[layer] = letter == 'E';
    }
    config->layer_parts = parts;
    return STATUS_OK;
}

static status read_mamba(json_value object, const char *type, model_config *config,
                         error_message *err)
{
    TRY(read_needed(object, &mamba_heads_field, type, &config->mamba_head_count, err));
    TRY(read_needed(object, &mamba_head_dim_field, type, &config->mamba_head_dim, err));
    TRY(read_needed(object, &mamba_state_field, type, &config->mamba_state_size, err));
    TRY(read_needed(object, &mamba_groups_field, type, &config->mamba_group_count, err));
    TRY(read_optional(object, &mamba_conv_field, 4, &config->mamba_conv_size, err));
    TRY(read_optional(object, &mamba_chunk_field, 256, &config->mamba_chunk_size, err));
    if (config->mamba_head_count % config->mamba_group_count == 0) return STATUS_OK;
    return json_error(find_field(object, &mamba_groups_field), STATUS_FORMAT, err,
                      "%d does not divide the %d heads", config->mamba_group_count,
                      config->mamba_head_count);
}

/// mlp_only_layers: indices of layers that keep a dense MLP.
static status read_dense_layers(json_value object, const model_config *config, bool *is_moe,
                                error_message *err)
{
    const json_value list = json_member(object, "mlp_only_layers");
    if (json_count(list) > config->layer_count) {
        return json_error(list, STATUS_FORMAT, err, "has %d entries for %d layers",
                          json_count(list), config->layer_count);
    }
    for (int entry = 0; entry < json_count(list); entry++) {
        int layer = 0;
        TRY(json_int(json_element(list, entry), 0, config->layer_count - 1, &layer, err));
        is_moe[layer] = false;
    }
    return STATUS_OK;
}

static status read_moe_layers(json_value object, moe_form moe, const model_config *config,
                              bool *is_moe, error_message *err)
{
    int step = 1;
    int first = 0;
    if (moe == MOE_QWEN) {
        TRY(read_optional(object, &sparse_step_field, 1, &step, err));
    } else if (moe == MOE_DEEPSEEK) {
        TRY(read_optional(object, &moe_frequency_field, 1, &step, err));
        TRY(read_optional(object, &first_dense_field, 0, &first, err));
    }
    for (int layer = 0; layer < config->layer_count; layer++) {
        const int counted = moe == MOE_QWEN ? layer + 1 : layer;
        is_moe[layer] = layer >= first && counted % step == 0;
    }
    return moe == MOE_QWEN ? read_dense_layers(object, config, is_moe, err) : STATUS_OK;
}

/// LLaMA-MoE cuts the MLP of a dense model into experts; intermediate_size stays that of the whole.
static status read_llama_moe_experts(json_value object, model_config *config, error_message *err)
{
    int ffn_size = 0;
    TRY(read_needed(object, &ffn_field, "llama_moe", &ffn_size, err));
    if (ffn_size % config->expert_count != 0) {
        return json_error(find_field(object, &ffn_field), STATUS_FORMAT, err,
                          "%d is not a multiple of the %d experts that share it", ffn_size,
                          config->expert_count);
    }
    config->expert_ffn_size = ffn_size / config->expert_count;
    return STATUS_OK;
}

/// size_experts: one row per layer, one width per expert; null where all are alike.
static status check_expert_sizes(json_value object, const model_config *config, arena *memory,
                                 error_message *err)
{
    const json_value rows = json_member(object, "size_experts");
    if (json_is_missing(rows)) return STATUS_OK;
    if (json_count(rows) != config->layer_count) {
        return json_error(rows, STATUS_FORMAT, err, "has %d rows, needs one for each of %d layers",
                          json_count(rows), config->layer_count);
    }
    int64_t *sizes = arena_array(memory, (size_t)config->expert_count, sizeof *sizes);
    for (int layer = 0; layer < config->layer_count; layer++) {
        const json_value row = json_element(rows, layer);
        TRY(json_int64_array(row, config->expert_count, 1, WIDTH_MAX, sizes, err));
        for (int expert = 0; expert < config->expert_count; expert++) {
            if (sizes[expert] == config->expert_ffn_size) continue;
            return json_error(json_element(row, expert), STATUS_UNSUPPORTED, err,
                              "%d: experts of different sizes are not modelled; "
                              "intermediate_size / num_experts is %d",
                              (int)sizes[expert], config->expert_ffn_size);
        }
    }
    return STATUS_OK;
}

/// Its gate is a matrix, or two with tanh between, and for noise one more. All without bias.
static status read_llama_moe_router(json_value object, model_config *config, error_message *err)
{
    const json_value network_value = json_member(object, "gate_network");
    const char *network = "mlp";
    if (!json_is_missing(network_value)) TRY(json_string(network_value, &network, err));
    const bool is_mlp = strcmp(network, "mlp") == 0;
    if (!is_mlp && strcmp(network, "linear") != 0) {
        return json_error(network_value, STATUS_UNSUPPORTED, err,
                          "'%.40s' is not modelled, only mlp and linear", network);
    }
    bool has_noise = true;
    TRY(read_flag(object, "gate_add_noise", true, &has_noise, err));
    const int64_t experts = config->expert_count;
    config->router_weight_count =
        experts * config->hidden_size * (has_noise ? 2 : 1) + (is_mlp ? experts * experts : 0);
    return STATUS_OK;
}

static status read_experts_of_form(json_value object, const model_family *family, arena *memory,
                                   model_config *config, error_message *err)
{
    const char *type = family->model_type;
    config->router_weight_count = (int64_t)config->expert_count * config->hidden_size;
    if (family->moe == MOE_LLAMA) {
        TRY(read_llama_moe_experts(object, config, err));
        TRY(check_expert_sizes(object, config, memory, err));
        return read_llama_moe_router(object, config, err);
    }
    if (family->moe == MOE_MIXTRAL) {
        return read_needed(object, &ffn_field, type, &config->expert_ffn_size, err);
    }
    TRY(read_needed(object, &expert_ffn_field, type, &config->expert_ffn_size, err));
    if (family->moe == MOE_QWEN) {
        TRY(read_optional(object, &shared_ffn_field, 0, &config->shared_ffn_size, err));
        if (config->shared_ffn_size > 0) config->router_weight_count += config->hidden_size;
        return STATUS_OK;
    }
    int shared_count = 0;
    int shared_width = config->expert_ffn_size;
    if (family->moe == MOE_NEMOTRON) {
        TRY(read_optional(object, &expert_latent_field, 0, &config->expert_latent_size, err));
    }
    TRY(read_optional(object, &shared_experts_field, 0, &shared_count, err));
    TRY(read_optional(object, &shared_width_field, shared_width, &shared_width, err));
    const int64_t shared_size = (int64_t)shared_count * shared_width;
    if (shared_size > WIDTH_MAX) {
        return json_error(find_field(object, &shared_experts_field), STATUS_FORMAT, err,
                          "%d shared experts of width %d are together wider than %d", shared_count,
                          config->expert_ffn_size, WIDTH_MAX);
    }
    config->shared_ffn_size = (int)shared_size;
    TRY(read_optional(object, &groups_field, 0, &config->expert_group_count, err));
    TRY(read_optional(object, &group_top_k_field, config->expert_group_count,
                      &config->expert_group_top_k, err));
    if (config->expert_group_top_k > config->expert_group_count) {
        return json_error(find_field(object, &group_top_k_field), STATUS_FORMAT, err,
                          "%d exceeds the %d groups", config->expert_group_top_k,
                          config->expert_group_count);
    }
    // The bias by which version 3 balances its experts (e_score_correction_bias).
    if (strcmp(type, "deepseek_v3") == 0) config->router_bias_count = config->expert_count;
    return STATUS_OK;
}

/// Dense families: an expert count is a contradiction, but for the early forks of Mixtral, which
/// call themselves mistral.
static status read_dense_family(json_value object, const model_family **family, error_message *err)
{
    int expert_count = 0;
    TRY(read_optional(object, &experts_field, 0, &expert_count, err));
    if (expert_count == 0) return STATUS_OK;
    if (strcmp((*family)->model_type, "mistral") != 0) {
        return json_error(find_field(object, &experts_field), STATUS_FORMAT, err,
                          "%d experts contradict model_type '%s', which has none", expert_count,
                          (*family)->model_type);
    }
    int row = 0;
    while (families[row].moe != MOE_MIXTRAL) {
        row++;
    }
    *family = &families[row];
    return STATUS_OK;
}

static status read_experts(json_value object, const model_family *family, arena *memory,
                           model_config *config, bool *is_moe, error_message *err)
{
    if (family->moe == MOE_NONE) return STATUS_OK;
    const char *type = family->model_type;
    if (family->moe == MOE_NEMOTRON) {
        TRY(read_pattern(object, memory, config, is_moe, err));
        TRY(read_mamba(object, type, config, err));
    }
    // DeepSeek and Nemotron-H without n_routed_experts is a dense model of that architecture.
    if (family->moe == MOE_DEEPSEEK || family->moe == MOE_NEMOTRON) {
        TRY(read_optional(object, &experts_field, 0, &config->expert_count, err));
    } else {
        TRY(read_needed(object, &experts_field, type, &config->expert_count, err));
        if (config->expert_count == 0) {
            return json_error(find_field(object, &experts_field), STATUS_FORMAT, err,
                              "0 experts contradict model_type '%s'", type);
        }
    }
    if (config->expert_count == 0) return STATUS_OK;
    TRY(read_needed(object, &top_k_field, type, &config->expert_top_k, err));
    if (config->expert_top_k > config->expert_count) {
        return json_error(find_field(object, &top_k_field), STATUS_FORMAT, err,
                          "%d exceeds the %d experts", config->expert_top_k, config->expert_count);
    }
    TRY(read_experts_of_form(object, family, memory, config, err));
    if (family->moe == MOE_NEMOTRON) return STATUS_OK;
    return read_moe_layers(object, family->moe, config, is_moe, err);
}

/// The MLP of layers that are not MoE, if there are any.
static status read_dense_mlp(json_value object, const model_family *family, const bool *is_moe,
                             model_config *config, error_message *err)
{
    bool has_dense_layer = false;
    for (int layer = 0; layer < config->layer_count; layer++) {
        const bool has_mlp =
            config->layer_parts == NULL || (config->layer_parts[layer] & MODEL_LAYER_MLP) != 0;
        has_dense_layer = has_dense_layer || (has_mlp && !is_moe[layer]);
    }
    if (!has_dense_layer) return STATUS_OK;
    if (!family->has_learned_positions) {
        return read_needed(object, &ffn_field, family->model_type, &config->ffn_size, err);
    }
    const int64_t four_hidden = (int64_t)config->hidden_size * 4;
    TRY(read_optional(object, &ffn_field, (int)four_hidden, &config->ffn_size, err));
    return STATUS_OK;
}

static status read_sizes(json_value object, const model_family *family, model_config *config,
                         error_message *err)
{
    const char *type = family->model_type;
    TRY(read_needed(object, &layers_field, type, &config->layer_count, err));
    TRY(read_needed(object, &hidden_field, type, &config->hidden_size, err));
    TRY(read_needed(object, &vocabulary_field, type, &config->vocabulary_size, err));
    TRY(read_optional(object, &prediction_field, 0, &config->prediction_layer_count, err));
    if (family->has_learned_positions) {
        TRY(read_needed(object, &positions_field, type, &config->position_count, err));
    } else {
        const json_value base = json_member(object, "rope_theta");
        config->rotary_base = 10000;
        TRY(read_optional(object, &positions_field, 0, &config->position_count, err));
        if (!json_is_missing(base)) TRY(json_double(base, 1, 1e12, &config->rotary_base, err));
    }
    return read_flag(object, "tie_word_embeddings", family->has_tied_default,
                     &config->has_tied_embeddings, err);
}

status model_config_read(const json_document *document, arena *memory, model_config *config,
                         error_message *err)
{
    const json_value root = json_root(document);
    const json_value nested = json_member(root, "text_config");
    const json_value object = json_is_object(nested) ? nested : root;
    const model_family *family = NULL;
    TRY(find_family(object, &family, err));
    if (family->moe == MOE_NONE) TRY(read_dense_family(object, &family, err));
    model_config read = {
        .model_type = family->model_type,
        .norm = family->norm,
        .has_learned_positions = family->has_learned_positions,
        .has_gated_mlp = family->has_gated_mlp,
    };
    TRY(read_sizes(object, family, &read, err));
    bool *is_moe = arena_array(memory, (size_t)read.layer_count, sizeof *is_moe);
    read.is_moe = is_moe;
    TRY(read_attention_heads(object, family, &read, err));
    TRY(family->moe == MOE_DEEPSEEK ? read_latent_attention(object, family, &read, err)
                                    : read_head_dim(object, &read, err));
    TRY(read_biases(object, family, &read, err));
    TRY(read_dropouts(object, family, &read, err));
    TRY(read_window(object, family, memory, &read, err));
    TRY(read_experts(object, family, memory, &read, is_moe, err));
    TRY(read_dense_mlp(object, family, is_moe, &read, err));
    TRY(read_dtype(object, &read, err));
    if (model_total_parameters(&read) > JSON_INTEGER_MAX) {
        return json_error(object, STATUS_FORMAT, err, "the model has more than 2^53 parameters");
    }
    *config = read;
    return STATUS_OK;
}

model_config model_config_layer(const model_config *config, int layer)
{
    model_config view = *config;
    if (config->layer_parts == NULL) return view;
    const unsigned parts = config->layer_parts[layer];
    if ((parts & MODEL_LAYER_ATTENTION) == 0) view.head_count = view.kv_head_count = 0;
    if ((parts & MODEL_LAYER_MAMBA) == 0) view.mamba_head_count = view.mamba_group_count = 0;
    if ((parts & MODEL_LAYER_WINDOW) == 0) view.sliding_window = 0;
    if ((parts & MODEL_LAYER_MLP) == 0) view.ffn_size = 0;
    return view;
}

int model_config_expert_width(const model_config *config)
{
    return config->expert_latent_size > 0 ? config->expert_latent_size : config->hidden_size;
}

int model_config_block_count(const model_config *view, int layer)
{
    if (view->layer_parts == NULL) return 2;
    const bool has_mixer = view->head_count > 0 || view->mamba_head_count > 0;
    return has_mixer + (view->ffn_size > 0 || view->is_moe[layer]);
}

/// A file of this kind is read without asking after keys that it may have: one that is changed must
/// be there, or nothing would come of the change.
static status check_changes(const json_document *base, const char *name, const char *changes,
                            error_message *err)
{
    enum { KEYS_MAX = 256 };
    const char *keys[KEYS_MAX];
    int key_count = 0;
    char suggestion[TEXT_SUGGESTION_BYTES];
    json_document *document = NULL;
    status result = STATUS_OK;
    TRY(json_open_bytes(name, changes, strlen(changes), &document, err));
    json_value known = json_element(json_root(base), 0);
    for (; known.node != NULL && key_count < KEYS_MAX; known = json_next(known)) {
        keys[key_count++] = json_key(known);
    }
    json_value change = json_element(json_root(document), 0);
    for (; change.node != NULL && result == STATUS_OK; change = json_next(change)) {
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(json_key(change), "."), json_key(change));
        if (json_member(json_root(base), key).node != NULL) continue;
        result = error_set(err, STATUS_FORMAT, "%s: has no '%.60s' to change%s", name, key,
                           text_suggestion(key, keys, key_count, suggestion));
    }
    json_close(document);
    return result;
}

static status open_base(const char *name_or_path, const char *changes, error_message *err)
{
    json_document *base = NULL;
    TRY(model_shipped_open(MODEL_SHIPPED_CONFIG, name_or_path, NULL, &base, err));
    const status result = check_changes(base, name_or_path, changes, err);
    json_close(base);
    return result;
}

status model_config_open(const char *name_or_path, const char *changes, arena *memory,
                         model_config *config, error_message *err)
{
    json_document *document = NULL;
    if (changes != NULL) TRY(open_base(name_or_path, changes, err));
    TRY(model_shipped_open(MODEL_SHIPPED_CONFIG, name_or_path, changes, &document, err));
    const status result = model_config_read(document, memory, config, err);
    json_close(document);
    return result;
}
