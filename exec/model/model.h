/// The model that a training run trains, and how: a byte-level transformer language model.
///
/// Layer 0 is the embedding, layers 1 to block_count are the blocks, layer block_count + 1 is the
/// head: final norm, logits, loss. Blocks are pre-norm: x += attention(norm1(x)), then
/// x += mlp(norm2(x)). What they are made of is GPT-2's unless the members that begin with
/// kv_head_count say otherwise; with all of them it is Llama's.
#pragma once

#include "base/status.h"
#include "exec/mechanism/mechanisms.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// What changes the model while it trains; at most one.
typedef enum exec_mechanism {
    EXEC_DENSE,
    EXEC_MOE,
    EXEC_MOD,
    EXEC_EARLY_EXIT,
    EXEC_PRUNING,
    EXEC_FREEZING,
    EXEC_SPARSE_ATTENTION,
    EXEC_MECHANISM_COUNT
} exec_mechanism;

/// "none", "moe", "mod", "early-exit", "pruning", "freezing", "sparse-attention".
extern const char *const exec_mechanism_names[EXEC_MECHANISM_COUNT];

/// Filled by exec_model_default, then by name.
typedef struct exec_model {
    int block_count;
    int width;
    int head_count;
    int head_width;      // 0: width / head_count, which then divides it
    int hidden_width;    // of the MLP; 0: 4 * width
    int vocabulary;      // 256: bytes
    int sequence_length; // tokens
    int microbatch_size; // sequences
    int packed_rows;     // of the fullest microbatch, of documents of unlike length, each at most
                         // sequence_length tokens (training_text.h); 0: sequences are all alike
    int kv_head_count;   // of keys and values, divides head_count; 0: head_count
    double rotary_base;  // rotary positions with angles position * rotary_base^(-2 i / head_width);
                         // 0: learned ones, added to the embedding
    bool has_rms_norm;   // RMSNorm; else LayerNorm
    bool is_gated;       // SwiGLU; else GELU
    bool lacks_query_key_value_bias, lacks_attention_output_bias, lacks_mlp_bias;
    /// Blocks keep their input alone until B, which computes F again; not with early exit.
    bool recomputes;
    uint64_t seed; // of parameters, data and mechanisms
    float learning_rate, beta1, beta2, epsilon;
    float weight_decay; // of matrices; norms and biases do not decay
    float clip_norm;    // the gradient's norm is scaled down to it; 0: never
    exec_mechanism mechanism;
    exec_moe_options moe;                         // where mechanism says so, like those that follow
    struct exec_expert_exchange *expert_exchange; // of the rank, where others have experts of its
                                                  // blocks (expert_exchange.h); NULL: it has all
    exec_mod_options mod;
    exec_early_exit_options early_exit;
    exec_pruning_options pruning;
    exec_freezing_options freezing;
    exec_sparse_attention_options sparse_attention;
} exec_model;

/// "sorted", "text"; "saturation", "softmax", "probability", "classifier".
extern const char *const exec_row_order_names[EXEC_ROW_ORDER_COUNT];
extern const char *const exec_exit_measure_names[EXEC_EXIT_MEASURE_COUNT];

/// A number that a study may give: where it is, and its limits.
typedef struct exec_model_number {
    int mechanism; // whose options it is of; EXEC_MECHANISM_COUNT: of every model
    const char *name;
    enum { EXEC_INT, EXEC_FLOAT, EXEC_DOUBLE, EXEC_ROW_ORDER, EXEC_EXIT_MEASURE } kind;
    size_t offset;      // in exec_model; an int but of EXEC_FLOAT and EXEC_DOUBLE
    const char *bounds; // "[]", "(]", "[)": whether low and high are among the values; NULL: limits
                        // depend on other numbers
    double low, high;   // high INFINITY: finite
} exec_model_number;

enum { EXEC_MODEL_NUMBERS = 33 };
extern const exec_model_number exec_model_numbers[EXEC_MODEL_NUMBERS];

/// 8 blocks of width 64, 4 heads, sequences of 64 bytes, 4 of them a microbatch; AdamW with 3e-3,
/// 0.9, 0.95, 1e-8, decay 0.1, clipped at 1. Of the mechanisms: 8 experts, 2 of them for each
/// token, balance 0.01; depths of 12.5 % in every second block, which Raposo et al. (arXiv
/// 2404.02258) found best; pruning to 90 % from iteration 30 to 70, every 10 (DynMo's weak
/// scaling); freezing every 10 iterations, calm below half of the largest movement twice in a row,
/// at most three quarters of the layers; attention over sorted rows, 16 buckets, blocks of 16 rows,
/// in the order of the text as many pairs as by chance.
exec_model exec_model_default(void);

/// @return STATUS_INVALID naming the parameter, its value and its limits
status exec_model_check(const exec_model *model, error_message *err);

/// block_count + 2.
int exec_model_layer_count(const exec_model *model);

/// Of a head, of all heads that ask, and of the MLP, as computed with.
int exec_model_head_width(const exec_model *model);
int exec_model_attention_width(const exec_model *model);
int exec_model_hidden_width(const exec_model *model);

/// Of the MLP of one expert.
int exec_model_expert_width(const exec_model *model);

/// Tokens of a microbatch, of the fullest.
int exec_model_row_count(const exec_model *model);
