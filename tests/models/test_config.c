/// config: every spelling is read, published parameter totals are met exactly, and each fault of a
/// file is named with its key and value.
#include "base/text.h"
#include "models/cost/config.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status read_text(const char *text, model_config *config, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open_bytes("c.json", text, strlen(text), &document, err));
    const status result = model_config_read(document, memory, config, err);
    json_close(document);
    return result;
}

/// base with one member more, or with another value of a member that it has on a line of its own.
static char *with(const char *base, const char *key, const char *value)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    text_buffer out = {0};
    const char *found = strstr(base, quoted);
    if (found != NULL) {
        text_append_bytes(&out, base, (size_t)(found - base));
        text_format(&out, "%s%s%s", quoted, value, found + strcspn(found, ",}"));
    } else {
        text_format(&out, "{%s%s,%s", quoted, value, base + 1);
    }
    return out.bytes;
}

static void assert_fails_to_read(const char *text, status code, const char *fault)
{
    model_config config = {.layer_count = -7};
    char message[sizeof why.message];
    snprintf(message, sizeof message, "c.json%s", fault);

    assert_fails(read_text(text, &config, &why), code, message);
    assert_int_equal(config.layer_count, -7);
}

/// base with a member (see with) is refused.
///
/// @param fault what the message says after the file's name
static void refused(const char *base, const char *key, const char *value, const char *fault)
{
    char *text = with(base, key, value);
    assert_fails_to_read(text, STATUS_FORMAT, fault);
    free(text);
}

static void not_modelled(const char *base, const char *key, const char *value, const char *fault)
{
    char *text = with(base, key, value);
    assert_fails_to_read(text, STATUS_UNSUPPORTED, fault);
    free(text);
}

static const char gpt2[] = "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":64,\"n_head\":4,"
                           "\"n_positions\":32,\"vocab_size\":100}";
static const char llama[] =
    "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"vocab_size\":100}";
static const char mixtral[] =
    "{\"model_type\":\"mixtral\",\"num_hidden_layers\":2,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"num_local_experts\":8,\"num_experts_per_tok\":2,\"vocab_size\":100}";
static const char llama_moe[] =
    "{\"model_type\":\"llama_moe\",\"num_hidden_layers\":2,\"hidden_size\":64,"
    "\"intermediate_size\":96,\"num_attention_heads\":4,\"num_experts\":4,\"num_selects\":2,"
    "\"vocab_size\":100}";
static const char deepseek[] =
    "{\"model_type\":\"deepseek_v2\",\"num_hidden_layers\":27,\"hidden_size\":2048,"
    "\"intermediate_size\":10944,\"moe_intermediate_size\":1408,\"num_attention_heads\":16,"
    "\"num_key_value_heads\":16,\"n_routed_experts\":64,\"n_shared_experts\":2,"
    "\"num_experts_per_tok\":6,\"first_k_dense_replace\":1,\"moe_layer_freq\":1,"
    "\"kv_lora_rank\":512,\"q_lora_rank\":null,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,"
    "\"v_head_dim\":128,\"vocab_size\":102400}";

TEST(published_totals_are_met_exactly)
{
    static const struct {
        const char *name;
        int layers;
        int64_t layer;
        int64_t total;
        int64_t active;
    } published[] = {
        {"gpt-bytes", 12, 49984, 649088, 649088}, // 12 h^2 + 13 h a layer, h = 64
        {"gpt2", 12, 7087872, 124439808, 124439808},
        {"gpt2-medium", 24, 12596224, 354823168, 354823168},
        {"gpt2-xl", 48, 30740800, 1557611200, 1557611200},
        {"gpt-dynmo-body", 24, 12596224, 304409600, 304409600}, // nothing but layers
        {"gpt-dynmo", 24, 12596224, 355871744, 355871744},      // gpt2-medium with 2048 positions
        {"llama-2-7b", 32, 202383360, 6738415616, 6738415616},
        {"llama-3-8b", 32, 218112000, 8030261248, 8030261248},
        // 12.5B beside 3.2B of embeddings, 331.6B beside 9.4B (arXiv 2402.16819, Nemotron-4 340B).
        {"nemotron-4-15b", 32, 390094848, 15628775424, 15628775424},
        {"nemotron-4-340b", 96, 3454083072, 341029195776, 341029195776},
        {"mixtral-8x22b", 56, 2504060928, 140620634112, 39152031744}, // "141B", "39B active"
        {"mixtral-8x7b", 32, 1451270144, 46702792704, 12879925248},
        // Llama-2-7B and in each layer a gate of 2hE + E^2 = 131,328.
        {"llama-moe-3.5b", 32, 202514688, 6742618112, 3496226816},
    };
    for (size_t row = 0; row < sizeof published / sizeof published[0]; row++) {
        model_config config;
        assert_ok(model_config_open(published[row].name, NULL, memory, &config, NULL));
        assert_int_equal(config.layer_count, published[row].layers);
        assert_int_equal(model_layer_parameters(&config, 0), published[row].layer);
        assert_int_equal(model_total_parameters(&config), published[row].total);
        assert_int_equal(model_active_parameters(&config), published[row].active);
    }
}

static int64_t total_of(const char *text)
{
    model_config config;
    require(read_text(text, &config, &why));
    return model_total_parameters(&config);
}

TEST(totals_of_other_families_are_met_too)
{
    // GPT-2 large, as its table lists it.
    assert_int_equal(total_of("{\"model_type\":\"gpt2\",\"n_layer\":36,\"n_embd\":1280,"
                              "\"n_head\":20,\"n_positions\":1024,\"vocab_size\":50257}"),
                     774030080);
    // Qwen1.5-MoE-A2.7B: biases on queries, keys and values; a gated shared expert.
    assert_int_equal(total_of("{\"model_type\":\"qwen2_moe\",\"num_hidden_layers\":24,"
                              "\"hidden_size\":2048,\"intermediate_size\":5632,"
                              "\"moe_intermediate_size\":1408,"
                              "\"shared_expert_intermediate_size\":5632,\"num_experts\":60,"
                              "\"num_experts_per_tok\":4,\"num_attention_heads\":16,"
                              "\"num_key_value_heads\":16,\"vocab_size\":151936}"),
                     14315784192);
    // Qwen3-30B-A3B: heads wider than hidden_size, norms on queries and keys.
    assert_int_equal(total_of("{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":48,"
                              "\"hidden_size\":2048,\"moe_intermediate_size\":768,"
                              "\"num_experts\":128,\"num_experts_per_tok\":8,\"head_dim\":128,"
                              "\"num_attention_heads\":32,\"num_key_value_heads\":4,"
                              "\"vocab_size\":151936}"),
                     30532122624);
    // DeepSeek-V2-Lite: latent attention, queries not compressed, first layer dense.
    assert_int_equal(total_of(deepseek), 15706484224);
    // DeepSeek-V3 without its prediction layer: compressed queries, a balancing bias per expert.
    assert_int_equal(
        total_of("{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":61,\"hidden_size\":7168,"
                 "\"intermediate_size\":18432,\"moe_intermediate_size\":2048,"
                 "\"num_attention_heads\":128,\"num_key_value_heads\":128,"
                 "\"n_routed_experts\":256,\"n_shared_experts\":1,\"num_experts_per_tok\":8,"
                 "\"first_k_dense_replace\":3,\"kv_lora_rank\":512,\"q_lora_rank\":1536,"
                 "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,"
                 "\"num_nextn_predict_layers\":1,\"vocab_size\":129280}"),
        671026419200);
}

TEST(every_spelling_gives_the_same_model)
{
    const int64_t gpt2_total = total_of(gpt2);
    const int64_t mixtral_total = total_of(mixtral);

    assert_int_equal(total_of("{\"model_type\":\"gpt2\",\"num_hidden_layers\":2,"
                              "\"hidden_size\":64,\"num_attention_heads\":4,\"n_ctx\":32,"
                              "\"n_inner\":256,\"vocab_size\":100}"),
                     gpt2_total);
    assert_int_equal(total_of("{\"model_type\":\"mistral\",\"num_hidden_layers\":2,"
                              "\"hidden_size\":64,\"intermediate_size\":96,"
                              "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                              "\"num_experts\":8,\"num_experts_per_token\":2,"
                              "\"vocab_size\":100}"),
                     mixtral_total);
    // Multimodal files hold the language model in text_config; outside of it other sizes may stand.
    char nested[sizeof mixtral + 100];
    snprintf(nested, sizeof nested,
             "{\"model_type\":\"llava\",\"hidden_size\":3,\"text_config\":%s}", mixtral);
    assert_int_equal(total_of(nested), mixtral_total);
}

TEST(qwen_layers_are_moe_at_every_step_but_where_listed)
{
    model_config config;

    assert_ok(read_text("{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":6,"
                        "\"hidden_size\":64,\"intermediate_size\":96,"
                        "\"moe_intermediate_size\":32,\"num_experts\":8,"
                        "\"num_experts_per_tok\":2,\"num_attention_heads\":4,"
                        "\"num_key_value_heads\":4,\"vocab_size\":100,"
                        "\"decoder_sparse_step\":2,\"mlp_only_layers\":[3]}",
                        &config, NULL));

    const bool expected[] = {false, true, false, false, false, true};
    for (int layer = 0; layer < 6; layer++) {
        assert_int_equal(config.is_moe[layer], expected[layer]);
    }
    assert_int_equal(config.ffn_size, 96);
}

TEST(missing_fields_are_named)
{
    refused(llama, "model_type", "null", ": model_type: is not a string");
    refused(llama, "num_hidden_layers", "null",
            ": num_hidden_layers: missing (as is 'n_layer'); model_type 'llama' needs it");
    refused(llama, "vocab_size", "null", ": vocab_size: missing; model_type 'llama' needs it");
    refused(llama, "intermediate_size", "null",
            ": intermediate_size: missing (as is 'n_inner'); model_type 'llama' needs it");
    refused(mixtral, "num_key_value_heads", "null",
            ": num_key_value_heads: missing; model_type 'mixtral' needs it");
    refused(mixtral, "num_experts_per_tok", "null",
            ": num_experts_per_tok: missing (as is 'num_experts_per_token'); model_type 'mixtral' "
            "needs it");
    refused(gpt2, "n_positions", "null",
            ": max_position_embeddings: missing (as is 'n_positions'); model_type 'gpt2' needs it");
    refused(deepseek, "kv_lora_rank", "null",
            ": kv_lora_rank: missing; model_type 'deepseek_v2' needs it");
}

TEST(values_outside_their_limits_are_named)
{
    refused(gpt2, "n_head", "0", ": n_head: 0 is outside [1, 2097152]");
    refused(gpt2, "n_layer", "-3", ": n_layer: -3 is outside [1, 16384]");
    refused(gpt2, "n_embd", "10000000000000000000",
            ":1: n_embd: integer 10000000000000000000 exceeds 2^53 = 9007199254740992");
    refused(gpt2, "n_embd", "1e19", ": n_embd: integer 1e+19 exceeds 2^53");
    refused(gpt2, "n_embd", "NaN", ":1: not valid JSON");
    refused(gpt2, "n_embd", "64.5", ": n_embd: 64.5 is not an integer");
    refused(gpt2, "n_embd", "\"64\"", ": n_embd: is not an integer");
    refused(gpt2, "attn_pdrop", "1.5", ": attn_pdrop: 1.5 is outside [0, 1]");
    refused(mixtral, "num_local_experts", "99999",
            ": num_local_experts: 99999 is outside [0, 4096]");
    char *wide = with(mixtral, "intermediate_size", "2097152");
    char *wider = with(wide, "hidden_size", "2097152");
    free(wide);
    wide = with(wider, "num_local_experts", "4096");
    free(wider);
    assert_fails_to_read(wide, STATUS_FORMAT, ": the model has more than 2^53 parameters");
    free(wide);
}

TEST(contradictions_name_both_sides)
{
    refused(gpt2, "num_hidden_layers", "3", ": n_layer: 2 contradicts num_hidden_layers 3");
    refused(gpt2, "n_head", "3",
            ": n_head: 3 does not divide hidden_size 64, and head_dim is not given");
    refused(llama, "num_key_value_heads", "3",
            ": num_key_value_heads: 3 does not divide the 4 attention heads");
    refused(llama, "num_local_experts", "8",
            ": num_local_experts: 8 experts contradict model_type 'llama', which has none");
    refused(mixtral, "num_local_experts", "0",
            ": num_local_experts: 0 experts contradict model_type 'mixtral'");
    refused(mixtral, "num_experts_per_tok", "9", ": num_experts_per_tok: 9 exceeds the 8 experts");
    refused(mixtral, "num_experts", "4", ": num_experts: 4 contradicts num_local_experts 8");
    refused(llama_moe, "intermediate_size", "95",
            ": intermediate_size: 95 is not a multiple of the 4 experts that share it");
    refused(llama_moe, "size_experts", "[[24,24,24,24]]",
            ": size_experts: has 1 rows, needs one for each of 2 layers");
    refused(llama, "layer_types", "[\"full_attention\"]",
            ": layer_types: has 1 entries, needs one for each of 2 layers");
    refused(deepseek, "num_key_value_heads", "8",
            ": num_key_value_heads: 8 contradicts num_attention_heads 16: in latent attention "
            "every head has its own keys");
    char *half = with(llama, "torch_dtype", "\"float16\"");
    refused(half, "dtype", "\"bfloat16\"", ": dtype: 'bfloat16' contradicts torch_dtype 'float16'");
    free(half);
}

TEST(what_is_not_modelled_is_refused_by_name)
{
    not_modelled(
        llama, "model_type", "\"mamba2\"",
        ": model_type: 'mamba2' is no family that is modelled (gpt2, llama, mistral, mixtral, "
        "llama_moe, qwen2[_moe], qwen3[_moe], deepseek_v2, deepseek_v3, gpt_oss, nemotron, "
        "nemotron_h)");
    not_modelled(llama, "model_type", "\"llama4\"",
                 ": model_type: 'llama4' is no family that is modelled (the nearest is llama)");
    not_modelled(llama, "layer_types", "[\"full_attention\",\"linear_attention\"]",
                 ": layer_types[1]: 'linear_attention' is not modelled, only full_attention");
    not_modelled(llama, "use_sliding_window", "true",
                 ": use_sliding_window: true is not modelled: it gives layers different windows");
    not_modelled(llama_moe, "size_experts", "[[24,24,24,24],[12,36,24,24]]",
                 ": size_experts[1][0]: 12: experts of different sizes are not modelled; "
                 "intermediate_size / num_experts is 24");
    not_modelled(llama_moe, "gate_network", "\"cnn\"",
                 ": gate_network: 'cnn' is not modelled, only mlp and linear");
    not_modelled(deepseek, "attention_bias", "true",
                 ": attention_bias: true is not modelled for latent attention");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
