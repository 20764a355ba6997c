/// How much one GPU computes, moves and keeps of a layer in one pass of one microbatch: pure
/// counts, no times. README.md has the formulas. Counts saturate at INT64_MAX.
#pragma once

#include "models/cost/config.h"
#include "models/cost/parallel.h"

#include <stdint.h>

typedef enum model_attention {
    MODEL_ATTENTION_FLASH,   ///< one kernel; causal: skips the half that the mask hides
    MODEL_ATTENTION_FLASH_2, ///< the same by FlashAttention-2, whose instructions are Ampere's
    MODEL_ATTENTION_UNFUSED, ///< scores in memory, s x s per head, masked afterwards
    MODEL_ATTENTION_COUNT
} model_attention;

extern const char *const model_attention_names[MODEL_ATTENTION_COUNT];

/// MODEL_ATTENTION_COUNT if there is none of this name.
model_attention model_attention_find(const char *name);

/// A microbatch, and the GPUs that share it.
typedef struct model_shape {
    int sequence_length; // tokens of a sample, >= 1
    int microbatch_size; // samples, >= 1
    model_dtype dtype;   // of weights and activations; of float8 see model_dtype_wide
    model_attention attention;
    model_parallel parallel; // fits the model and the sequence (model_parallel_check and the like);
                             // recomputation changes what is kept, never the work of a pass
} model_shape;

/// Tokens of a microbatch that a GPU works on: those of its part of the sequences.
int64_t model_shape_tokens(const model_shape *shape);

/// Tokens that a GPU's experts work on for each expert that a token meets, balanced: those that its
/// expert_tensor group sends.
int64_t model_shape_routed_tokens(const model_shape *shape);

/// Of so many places, those that a token reaches with top_k experts drawn alike.
double model_places_met(double places, double top_k);

/// What one GPU holds of the model: heads, MLP, experts and vocabulary divided by their degrees,
/// the last two rounded up; key-value heads too, but no fewer than one. All else is whole.
model_config model_gpu_slice(const model_config *config, const model_parallel *parallel);

typedef enum model_pass {
    MODEL_PASS_FORWARD,         ///< F
    MODEL_PASS_BACKWARD_INPUT,  ///< B: gradient of the input
    MODEL_PASS_BACKWARD_WEIGHT, ///< W: gradient of the weights, only where there are matrices
    MODEL_PASS_COUNT
} model_pass;

typedef struct model_work {
    int64_t flop;  // of matrix products; a multiply-add is 2
    int64_t bytes; // read and written in device memory, each operand once per kernel
} model_work;

enum { MODEL_PRODUCTS_MAX = 10 };

/// A product with parameters, or as many of them as there are groups.
typedef struct model_product {
    int64_t rows; // of each group
    int64_t in;
    int64_t out;
    int64_t groups;                  // experts that are met; else 1
    int64_t flop;                    // of a pass: every pass multiplies as often
    int64_t bytes[MODEL_PASS_COUNT]; // read and written, each operand once
    int64_t kept_bytes;              // of its input, from F on
    int64_t out_bytes;               // of its output's gradient
} model_product;

typedef struct model_products {
    model_product items[MODEL_PRODUCTS_MAX]; // [count]
    int count;
} model_products;

/// What is started in a pass beside its products.
typedef struct model_launches {
    int64_t kernel_count;   // that stream through memory
    int64_t operator_count; // of the framework, products and collectives included: what the host
                            // starts one by one
    int64_t library_count;  // kernels that a library starts in a loop, as for each expert
} model_launches;

/// Parts of a pass that run at different rates, one after the other.
typedef struct model_layer_work {
    model_work projection;  // attention's matrices; of the head: its matrix
    model_work attention;   // the core: scores, softmax, values
    model_work mlp;         // matrices of MLP or experts and router
    model_work elementwise; // norms, residuals, activation, rotation, dropout; head: softmax; casts
                            // to narrow formats; bytes only
    model_products projections;
    model_products mlps;
    model_launches launches;
} model_layer_work;

/// Entries of the matrices of a layer's attention or state-space mixer, without biases and norms.
///
/// @param view of the layer: model_config_layer
int64_t model_mixer_weight_count(const model_config *view);

/// Work of a transformer layer; config is of the whole model. With experts, every token meets
/// expert_top_k of them and each expert as many tokens as the others, so that a GPU computes as
/// many rows as it sends. 0 <= layer < config->layer_count.
model_layer_work model_layer_work_of(const model_config *config, const model_shape *shape,
                                     int layer, model_pass pass);

/// What B makes again of the layer's forward work: MODEL_REMAKES_...; the whole is that of F, or
/// without its end.
model_layer_work model_layer_remade_work(const model_config *config, const model_shape *shape,
                                         int layer, unsigned remakes);

/// Work of the embedding: rows looked up, nothing in B (no layer stands before it), gradients added
/// to the rows in W.
model_layer_work model_embedding_work(const model_config *config, const model_shape *shape,
                                      model_pass pass);

/// Work of final norm, head and loss.
model_layer_work model_head_work(const model_config *config, const model_shape *shape,
                                 model_pass pass);

/// What a module of multi-token prediction has before its layer: the norms of a hidden vector and
/// of the next token's embedding, and the matrix that makes one vector of both.
/// Source: DeepSeek-V3, arXiv 2412.19437, section 2.2.
model_layer_work model_prediction_work(const model_config *config, const model_shape *shape,
                                       model_pass pass);

/// FLOP of all parts.
int64_t model_work_flop(const model_layer_work *work);

/// What a GPU keeps between passes, for one microbatch. With full recomputation a layer keeps its
/// input until B; what B then makes again is in model_costs.working_bytes.
typedef struct model_memory {
    int64_t activation_bytes; // from F to B
    int64_t gradient_bytes;   // from B to W: inputs of the matrices and gradients of their outputs
} model_memory;

model_memory model_layer_memory(const model_config *config, const model_shape *shape, int layer);
model_memory model_embedding_memory(const model_config *config, const model_shape *shape);
model_memory model_head_memory(const model_config *config, const model_shape *shape);

/// Activations that a GPU hands to the next layer, or gradients back: a hidden vector for each of
/// its own tokens.
int64_t model_message_bytes(const model_config *config, const model_shape *shape);

/// Rows that go to experts: one for each of a GPU's own tokens.
int64_t model_expert_row_bytes(const model_config *config, const model_shape *shape);

// How long the collectives inside a layer add to its passes (layer_collectives.c): tensor, context
// and expert parallelism. PARALLELISM.md has the formulas.

/// What a pass waits for. W has no collectives of its own.
typedef struct model_collectives {
    int64_t tensor_ns;     // all-reduces, or gathers and reduce-scatters
    int64_t mlp_tensor_ns; // of them, those of the MLP or the experts
    int64_t context_ns; // of the exchange of keys and values, what the attention core does not hide
    int64_t expert_ns;  // all-to-alls of balanced routing, out and back
    int64_t last_tensor_ns; // in F: of tensor_ns, what a layer without experts ends with
    int64_t last_expert_ns; // in F: of expert_ns, the way back, if B can do without
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
