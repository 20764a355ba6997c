#include "models/layer_work.h"

#include "models/saturating.h"

#include <assert.h>
#include <string.h>

enum {
    GEMMS_MAX = 10,
    GRADIENT_BYTES = 4, // weight gradients are added up in 32 bits
    LOGIT_BYTES = 4,    // the loss is computed in 32 bits
    TOKEN_BYTES = 8,    // token numbers are int64
    MASK_BYTES = 1      // of a dropped-or-kept flag
};

const char *model_attention_name(model_attention attention)
{
    assert(attention < MODEL_ATTENTION_COUNT);
    return attention == MODEL_ATTENTION_FLASH ? "flash" : "unfused";
}

model_attention model_attention_find(const char *name)
{
    int attention = 0;
    while (attention < MODEL_ATTENTION_COUNT &&
           strcmp(model_attention_name((model_attention)attention), name) != 0) {
        attention++;
    }
    return (model_attention)attention;
}

/// A matrix product with parameters. Widths are numbers per row; a token is rows_per_token rows.
typedef struct gemm {
    int64_t rows_per_token;
    int64_t in;
    int64_t out;
    int64_t weights_met;  // that one row is multiplied by
    int64_t weights_held; // that all rows together need
    bool shares_input;    // the product before it keeps the same input
} gemm;

static gemm plain_gemm(int64_t in, int64_t out)
{
    return (gemm){1, in, out, in * out, in * out, false};
}

static int64_t tokens_of(const model_shape *shape)
{
    return (int64_t)shape->sequence_length * shape->microbatch_size;
}

static int64_t query_width(const model_config *config)
{
    return (int64_t)config->head_count * config->query_key_dim;
}

static int64_t key_width(const model_config *config)
{
    return (int64_t)config->kv_head_count * config->query_key_dim;
}

/// Queries, keys and values as the core reads them.
static int64_t core_input_width(const model_config *config)
{
    return query_width(config) + key_width(config) +
           (int64_t)config->kv_head_count * config->value_dim;
}

static int64_t core_output_width(const model_config *config)
{
    return (int64_t)config->head_count * config->value_dim;
}

/// Width of what the first matrix of an MLP makes: gate and value side by side, or one.
static int64_t inner_width(const model_config *config, int64_t ffn_size)
{
    return ffn_size * (config->has_gated_mlp ? 2 : 1);
}

static int list_projection_gemms(const model_config *config, gemm gemms[GEMMS_MAX])
{
    const int64_t hidden = config->hidden_size;
    int count = 0;
    if (config->kv_rank == 0) {
        gemms[count++] = plain_gemm(hidden, core_input_width(config));
    } else {
        const bool compresses = config->query_rank > 0;
        const int64_t query = compresses ? config->query_rank : query_width(config);
        const int64_t content_dim = config->query_key_dim - config->rope_dim;
        gemms[count++] = plain_gemm(hidden, query + config->kv_rank + config->rope_dim);
        if (compresses) gemms[count++] = plain_gemm(config->query_rank, query_width(config));
        gemms[count++] = plain_gemm(config->kv_rank,
                                    config->head_count * content_dim + core_output_width(config));
    }
    gemms[count++] = plain_gemm(core_output_width(config), hidden);
    return count;
}

static int list_mlp_gemms(const model_config *config, int layer, int64_t tokens,
                          gemm gemms[GEMMS_MAX])
{
    const int64_t hidden = config->hidden_size;
    if (!config->is_moe[layer]) {
        gemms[0] = plain_gemm(hidden, inner_width(config, config->ffn_size));
        gemms[1] = plain_gemm(config->ffn_size, hidden);
        return 2;
    }
    const int64_t top_k = config->expert_top_k;
    const int64_t rows = saturating_multiply(tokens, top_k);
    const int64_t met = rows < config->expert_count ? rows : config->expert_count;
    const int64_t inner = inner_width(config, config->expert_ffn_size);
    const int64_t up = hidden * inner;
    const int64_t down = config->expert_ffn_size * hidden;
    int count = 0;
    gemms[count++] = (gemm){1,
                            hidden,
                            config->expert_count,
                            config->router_weight_count,
                            config->router_weight_count,
                            false};
    gemms[count++] = (gemm){top_k, hidden, inner, up, up * met, false};
    gemms[count++] = (gemm){top_k, config->expert_ffn_size, hidden, down, down * met, false};
    if (config->shared_ffn_size > 0) {
        gemms[count] = plain_gemm(hidden, inner_width(config, config->shared_ffn_size));
        gemms[count++].shares_input = true;
        gemms[count++] = plain_gemm(config->shared_ffn_size, hidden);
    }
    return count;
}

/// Every pass multiplies as often: F rows by weights, B gradients by weights, W rows by gradients.
/// F and B read and write both sides and read the weights; W reads both sides and adds to the
/// gradients.
static model_work gemm_work(const gemm *gemms, int count, const model_shape *shape, model_pass pass)
{
    const int64_t tokens = tokens_of(shape);
    const int64_t dtype_bytes = model_dtype_bytes(shape->dtype);
    const int64_t weight_bytes =
        pass == MODEL_PASS_BACKWARD_WEIGHT ? 2 * GRADIENT_BYTES : dtype_bytes;
    model_work work = {0, 0};
    for (int g = 0; g < count; g++) {
        const gemm *product = &gemms[g];
        const int64_t flop_per_token = 2 * product->rows_per_token * product->weights_met;
        const int64_t side_bytes =
            product->rows_per_token * (product->in + product->out) * dtype_bytes;
        work.flop = saturating_add(work.flop, saturating_multiply(tokens, flop_per_token));
        work.bytes = saturating_add(work.bytes, saturating_multiply(tokens, side_bytes));
        work.bytes =
            saturating_add(work.bytes, saturating_multiply(product->weights_held, weight_bytes));
    }
    return work;
}

/// Pairs of a query and a key, over all heads and samples, times 2: causal attention with a window
/// w meets w (2s - w) / 2 of s^2.
static int64_t doubled_causal_pairs(const model_config *config, const model_shape *shape)
{
    const int64_t length = shape->sequence_length;
    int64_t window = length;
    if (config->sliding_window > 0 && config->sliding_window < length) {
        window = config->sliding_window;
    }
    const int64_t per_head = saturating_multiply(window, 2 * length - window);
    const int64_t heads = (int64_t)config->head_count * shape->microbatch_size;
    return saturating_multiply(per_head, heads);
}

static int64_t full_pairs(const model_config *config, const model_shape *shape)
{
    const int64_t length = shape->sequence_length;
    const int64_t heads = (int64_t)config->head_count * shape->microbatch_size;
    return saturating_multiply(length * length, heads);
}

/// One kernel in each direction. Backward computes the scores again: 5 products instead of the 2
/// of forward, 3 of them of query_key_dim. Source: Dao, FlashAttention-2 (2023), section 4.1.
static model_work flash_work(const model_config *config, const model_shape *shape, bool is_forward)
{
    const int64_t dtype_bytes = model_dtype_bytes(shape->dtype);
    const int64_t query_key = config->query_key_dim;
    const int64_t value = config->value_dim;
    const int64_t flop_per_pair = is_forward ? query_key + value : 3 * query_key + 2 * value;
    const int64_t one_way = core_input_width(config) + core_output_width(config);
    return (model_work){
        .flop = saturating_multiply(doubled_causal_pairs(config, shape), flop_per_pair),
        .bytes =
            saturating_multiply(tokens_of(shape), one_way * dtype_bytes * (is_forward ? 1 : 2)),
    };
}

/// Forward writes the scores; softmax reads and writes them; dropout does so again; the product
/// with the values reads them. Backward: see the count below. All s^2 pairs, masked or not.
static model_work unfused_work(const model_config *config, const model_shape *shape,
                               bool is_forward)
{
    const int64_t dtype_bytes = model_dtype_bytes(shape->dtype);
    const int64_t mask = config->has_attention_dropout ? MASK_BYTES : 0;
    const int64_t dropout_accesses = config->has_attention_dropout ? 2 : 0;
    // Forward: write, read, write, read. Backward: dropped probabilities read for the gradient of
    // the values; their own gradient written and, with the probabilities, read by softmax; its
    // result written, and read for queries and for keys.
    const int64_t accesses = (is_forward ? 4 : 7) + dropout_accesses;
    const int64_t flop_per_pair =
        2 * ((int64_t)config->query_key_dim + config->value_dim) * (is_forward ? 1 : 2);
    const int64_t pairs = full_pairs(config, shape);
    const int64_t one_way = core_input_width(config) + core_output_width(config);
    const int64_t vectors =
        saturating_multiply(tokens_of(shape), one_way * dtype_bytes * (is_forward ? 1 : 2));
    return (model_work){
        .flop = saturating_multiply(pairs, flop_per_pair),
        .bytes = saturating_add(vectors, saturating_multiply(pairs, accesses * dtype_bytes + mask)),
    };
}

static model_work attention_work(const model_config *config, const model_shape *shape,
                                 model_pass pass)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return (model_work){0, 0};
    const bool is_forward = pass == MODEL_PASS_FORWARD;
    return shape->attention == MODEL_ATTENTION_FLASH ? flash_work(config, shape, is_forward)
                                                     : unfused_work(config, shape, is_forward);
}

/// Numbers that enter an activation function, per token: each expert row counts.
static int64_t activation_width(const model_config *config, int layer)
{
    if (!config->is_moe[layer]) return config->ffn_size;
    return (int64_t)config->expert_top_k * config->expert_ffn_size + config->shared_ffn_size;
}

/// Inputs of the norms that some families put inside attention.
static int64_t inner_norm_width(const model_config *config)
{
    const int64_t latent = (int64_t)config->query_rank + config->kv_rank;
    return latent + (config->has_query_key_norm ? query_width(config) + key_width(config) : 0);
}

static int64_t rotated_width(const model_config *config)
{
    if (config->has_learned_positions) return 0;
    if (config->kv_rank > 0) return (int64_t)config->rope_dim * (config->head_count + 1);
    return query_width(config) + key_width(config);
}

/// Bytes per token of the kernels that are no matrix products. The gradients of norms and biases
/// belong to B: their kernels make both at once.
static int64_t elementwise_bytes(const model_config *config, int64_t dtype_bytes, int layer,
                                 bool is_forward)
{
    const int64_t hidden = config->hidden_size;
    const int64_t activated = activation_width(config, layer);
    const int64_t inner = inner_width(config, activated);
    const int64_t norms = 2 * hidden + inner_norm_width(config);
    int64_t accesses = 2 * rotated_width(config) + 2 * 3 * hidden; // residuals: read two, write one
    accesses += norms * (is_forward ? 2 : 3); // backward reads the input and two gradients pass
    accesses += is_forward ? inner + activated : 2 * inner + activated;
    if (config->is_moe[layer]) {
        accesses += 2 * (config->expert_top_k + 1) * hidden; // out to the experts and back
    }
    int64_t masks = 0;
    if (config->has_residual_dropout) {
        masks = 2 * hidden * MASK_BYTES;
        if (!is_forward) accesses += 2 * 2 * hidden; // forward drops within the residual's kernel
    }
    return accesses * dtype_bytes + masks;
}

model_layer_work model_layer_work_of(const model_config *config, const model_shape *shape,
                                     int layer, model_pass pass)
{
    assert(layer >= 0 && layer < config->layer_count);
    gemm projections[GEMMS_MAX];
    gemm mlp[GEMMS_MAX];
    const int projection_count = list_projection_gemms(config, projections);
    const int mlp_count = list_mlp_gemms(config, layer, tokens_of(shape), mlp);
    model_layer_work work = {
        .projection = gemm_work(projections, projection_count, shape, pass),
        .attention = attention_work(config, shape, pass),
        .mlp = gemm_work(mlp, mlp_count, shape, pass),
    };
    if (pass != MODEL_PASS_BACKWARD_WEIGHT) {
        const int64_t per_token = elementwise_bytes(config, model_dtype_bytes(shape->dtype), layer,
                                                    pass == MODEL_PASS_FORWARD);
        work.elementwise.bytes = saturating_multiply(tokens_of(shape), per_token);
    }
    return work;
}

model_layer_work model_embedding_work(const model_config *config, const model_shape *shape,
                                      model_pass pass)
{
    const int64_t hidden = config->hidden_size;
    const int64_t dtype_bytes = model_dtype_bytes(shape->dtype);
    const int64_t tables = config->has_learned_positions ? 2 : 1;
    const int64_t mask = config->has_embedding_dropout ? hidden * MASK_BYTES : 0;
    int64_t per_token = 0;
    if (pass == MODEL_PASS_FORWARD) {
        per_token = (tables + 1) * hidden * dtype_bytes + mask;
    } else if (pass == MODEL_PASS_BACKWARD_WEIGHT) {
        per_token = hidden * dtype_bytes + tables * hidden * 2 * GRADIENT_BYTES + mask;
    }
    return (model_layer_work){
        .elementwise.bytes = saturating_multiply(tokens_of(shape), per_token),
    };
}

model_layer_work model_head_work(const model_config *config, const model_shape *shape,
                                 model_pass pass)
{
    const int64_t hidden = config->hidden_size;
    const int64_t vocabulary = config->vocabulary_size;
    const int64_t dtype_bytes = model_dtype_bytes(shape->dtype);
    const gemm head = plain_gemm(hidden, vocabulary);
    int64_t per_token = 0;
    if (pass == MODEL_PASS_FORWARD) { // norm; logits widened, then read by the loss
        per_token = 2 * hidden * dtype_bytes + vocabulary * (dtype_bytes + 2 * LOGIT_BYTES);
    } else if (pass == MODEL_PASS_BACKWARD_INPUT) { // gradient of the logits narrowed; norm
        per_token = 3 * hidden * dtype_bytes + vocabulary * (dtype_bytes + LOGIT_BYTES);
    }
    return (model_layer_work){
        .projection = gemm_work(&head, 1, shape, pass),
        .elementwise.bytes = saturating_multiply(tokens_of(shape), per_token),
    };
}

int64_t model_work_flop(const model_layer_work *work)
{
    return saturating_add(saturating_add(work->projection.flop, work->attention.flop),
                          saturating_add(work->mlp.flop, work->elementwise.flop));
}

int64_t model_layer_flop(const model_config *config, const model_shape *shape, int layer,
                         model_pass pass)
{
    const model_layer_work work = model_layer_work_of(config, shape, layer, pass);
    return model_work_flop(&work);
}

/// Numbers per token that the inputs of the products are, and their outputs.
static void add_gemm_widths(const gemm *gemms, int count, int64_t *inputs, int64_t *outputs)
{
    for (int g = 0; g < count; g++) {
        if (!gemms[g].shares_input) *inputs += gemms[g].rows_per_token * gemms[g].in;
        *outputs += gemms[g].rows_per_token * gemms[g].out;
    }
}

model_memory model_layer_memory(const model_config *config, const model_shape *shape, int layer)
{
    assert(layer >= 0 && layer < config->layer_count);
    gemm gemms[GEMMS_MAX];
    const int64_t tokens = tokens_of(shape);
    const int64_t dtype_bytes = model_dtype_bytes(shape->dtype);
    const int64_t hidden = config->hidden_size;
    int64_t inputs = 0;
    int64_t outputs = 0;
    add_gemm_widths(gemms, list_projection_gemms(config, gemms), &inputs, &outputs);
    add_gemm_widths(gemms, list_mlp_gemms(config, layer, tokens, gemms), &inputs, &outputs);

    int64_t kept = inputs + core_input_width(config) + 2 * hidden + inner_norm_width(config) +
                   inner_width(config, activation_width(config, layer));
    if (config->is_moe[layer]) kept += config->expert_top_k * hidden; // weighed by the router
    const int64_t masks = config->has_residual_dropout ? 2 * hidden * MASK_BYTES : 0;
    int64_t scores = 0;
    if (shape->attention == MODEL_ATTENTION_UNFUSED) {
        const int64_t dropped = config->has_attention_dropout ? dtype_bytes + MASK_BYTES : 0;
        scores = saturating_multiply(full_pairs(config, shape), dtype_bytes + dropped);
    }
    return (model_memory){
        .activation_bytes =
            saturating_add(saturating_multiply(tokens, kept * dtype_bytes + masks), scores),
        .gradient_bytes = saturating_multiply(tokens, (inputs + outputs) * dtype_bytes),
    };
}

model_memory model_embedding_memory(const model_config *config, const model_shape *shape)
{
    const int64_t hidden = config->hidden_size;
    const int64_t mask = config->has_embedding_dropout ? hidden * MASK_BYTES : 0;
    const int64_t gradient = hidden * model_dtype_bytes(shape->dtype);
    return (model_memory){
        .activation_bytes = saturating_multiply(tokens_of(shape), TOKEN_BYTES + mask),
        .gradient_bytes = saturating_multiply(tokens_of(shape), TOKEN_BYTES + mask + gradient),
    };
}

model_memory model_head_memory(const model_config *config, const model_shape *shape)
{
    const int64_t hidden = config->hidden_size;
    const int64_t vocabulary = config->vocabulary_size;
    const int64_t dtype_bytes = model_dtype_bytes(shape->dtype);
    return (model_memory){
        .activation_bytes = saturating_multiply(tokens_of(shape), 2 * hidden * dtype_bytes +
                                                                      vocabulary * LOGIT_BYTES),
        .gradient_bytes =
            saturating_multiply(tokens_of(shape), (hidden + vocabulary) * dtype_bytes),
    };
}

int64_t model_message_bytes(const model_config *config, const model_shape *shape)
{
    return saturating_multiply(tokens_of(shape),
                               (int64_t)config->hidden_size * model_dtype_bytes(shape->dtype));
}
