#include "models/cost/layer_work.h"

#include "base/text.h"
#include "models/cost/parameters.h"
#include "models/cost/saturating.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    GRADIENT_BYTES = 4,     // weight gradients are added up in 32 bits
    LOGIT_BYTES = 4,        // the loss is computed in 32 bits
    LOSS_COPIES = 1,        // of the logits where it is fused: their softmax in their place
    EAGER_LOSS_COPIES = 3,  // else: log-softmax, gradients of it and of the logits
    SPLIT_LOSS_COPIES = 4,  // of a divided vocabulary (PyTorch, loss_parallel): one-hot, too
    TOKEN_BYTES = 8,        // token numbers are int64
    MASK_BYTES = 1,         // of a dropped-or-kept flag
    HEAD_KERNELS = 8,       // of norm and loss
    PREDICTION_KERNELS = 3, // two norms, and their results beside each other
    EMBEDDING_KERNELS = 4
};

const char *const model_attention_names[] = {"flash", "flash-2", "unfused"};
_Static_assert(sizeof model_attention_names / sizeof model_attention_names[0] ==
                   MODEL_ATTENTION_COUNT,
               "a name each");

model_attention model_attention_find(const char *name)
{
    return (model_attention)text_find(name, model_attention_names, MODEL_ATTENTION_COUNT);
}

/// Which tokens a matrix product works on, and of which its input is kept.
typedef enum gemm_rows {
    ROWS_ALL,      ///< works on all, keeps all: its input is a slice of the width already
    ROWS_GATHERED, ///< works on all, keeps the GPU's own: the rest is gathered again for W, unless
                   ///< operators run one by one
    ROWS_OWN,      ///< works on the GPU's own: its weights are whole on every GPU
    ROWS_ROUTED    ///< works on those routed to the GPU's experts, keeps them as they arrived
} gemm_rows;

/// A matrix product with parameters. Widths are numbers per row; a token is rows_per_token rows.
typedef struct gemm {
    int64_t rows_per_token;
    int64_t in;
    int64_t out;
    int64_t weights_met;  // that one row is multiplied by
    int64_t weights_held; // that all rows together need
    gemm_rows rows;
    bool shares_input; // the product before it keeps the same input
} gemm;

static gemm plain_gemm(int64_t in, int64_t out, gemm_rows rows)
{
    return (gemm){1, in, out, in * out, in * out, rows, false};
}

static int64_t divided(int64_t count, int64_t parts)
{
    return count / parts + (count % parts > 0);
}

int64_t model_shape_tokens(const model_shape *shape)
{
    const model_parallel degrees = model_parallel_filled(shape->parallel);
    return divided(shape->sequence_length, degrees.context) * shape->microbatch_size;
}

/// Of those tokens, the ones whose norms and residuals are the GPU's own: with sequence parallelism
/// the tensor-th part, rounded up; else all.
static int64_t own_tokens_of(const model_shape *shape)
{
    const model_parallel degrees = model_parallel_filled(shape->parallel);
    return divided(model_shape_tokens(shape), degrees.sequence ? degrees.tensor : 1);
}

int64_t model_shape_routed_tokens(const model_shape *shape)
{
    const model_parallel degrees = model_parallel_filled(shape->parallel);
    if (degrees.expert_tensor == degrees.tensor) return model_shape_tokens(shape);
    return own_tokens_of(shape) * degrees.expert_tensor;
}

model_config model_gpu_slice(const model_config *config, const model_parallel *parallel)
{
    const model_parallel degrees = model_parallel_filled(*parallel);
    model_config slice = *config;
    slice.head_count = (int)divided(config->head_count, degrees.tensor);
    slice.kv_head_count = (int)divided(config->kv_head_count, degrees.tensor);
    slice.mamba_head_count = (int)divided(config->mamba_head_count, degrees.tensor);
    slice.mamba_group_count = (int)divided(config->mamba_group_count, degrees.tensor);
    slice.ffn_size = (int)divided(config->ffn_size, degrees.tensor);
    slice.expert_ffn_size = (int)divided(config->expert_ffn_size, degrees.expert_tensor);
    slice.shared_ffn_size = (int)divided(config->shared_ffn_size, degrees.tensor);
    slice.expert_count = (int)divided(config->expert_count, degrees.expert);
    slice.vocabulary_size = (int)divided(config->vocabulary_size, degrees.tensor);
    return slice;
}

double model_places_met(double places, double top_k)
{
    return places * (1 - pow(1 - 1 / places, top_k));
}

/// Of so many GPUs that hold the experts together, those that a token reaches. Of models whose
/// experts stand in groups a token meets those of some (DeepSeek).
static double gpus_met(const model_config *config, int expert)
{
    const double share = config->expert_group_count > 1
                             ? (double)config->expert_group_top_k / config->expert_group_count
                             : 1;
    return model_places_met(fmax(expert * share, 1), config->expert_top_k);
}

/// What one GPU has of a model and of a microbatch.
typedef struct gpu_share {
    const model_config *whole;
    model_config slice;
    int64_t tokens;
    int64_t own_tokens;
    int64_t routed_tokens;
    int64_t operand_bytes; // of matrix products
    int64_t wide_bytes;    // of everything else
    bool is_eager;
} gpu_share;

static gpu_share share_of(const model_config *config, const model_shape *shape)
{
    return (gpu_share){
        .whole = config,
        .slice = model_gpu_slice(config, &shape->parallel),
        .tokens = model_shape_tokens(shape),
        .own_tokens = own_tokens_of(shape),
        .routed_tokens = model_shape_routed_tokens(shape),
        .operand_bytes = model_dtype_bytes(shape->dtype),
        .wide_bytes = model_dtype_bytes(model_dtype_wide(shape->dtype)),
        .is_eager = shape->parallel.eager,
    };
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

/// The matrices that compress latent queries, keys and values are whole on every GPU.
static int list_projection_gemms(const model_config *slice, gemm gemms[MODEL_PRODUCTS_MAX])
{
    const int64_t hidden = slice->hidden_size;
    int count = 0;
    if (slice->mamba_head_count > 0) {
        gemms[count++] = plain_gemm(hidden, model_mamba_input_width(slice), ROWS_GATHERED);
        gemms[count++] = plain_gemm(model_mamba_width(slice), hidden, ROWS_ALL);
    }
    if (slice->head_count == 0) return count;
    if (slice->kv_rank == 0) {
        gemms[count++] = plain_gemm(hidden, core_input_width(slice), ROWS_GATHERED);
    } else {
        const bool compresses = slice->query_rank > 0;
        const int64_t query = compresses ? slice->query_rank : query_width(slice);
        const int64_t content_dim = slice->query_key_dim - slice->rope_dim;
        gemms[count++] = plain_gemm(hidden, query + slice->kv_rank + slice->rope_dim,
                                    compresses ? ROWS_OWN : ROWS_GATHERED);
        if (compresses) {
            gemms[count++] = plain_gemm(slice->query_rank, query_width(slice), ROWS_GATHERED);
        }
        gemms[count++] =
            plain_gemm(slice->kv_rank, slice->head_count * content_dim + core_output_width(slice),
                       ROWS_GATHERED);
    }
    gemms[count++] = plain_gemm(core_output_width(slice), hidden, ROWS_ALL);
    return count;
}

static int list_mlp_gemms(const gpu_share *share, int layer, gemm gemms[MODEL_PRODUCTS_MAX])
{
    const model_config *slice = &share->slice;
    const int64_t hidden = slice->hidden_size;
    if (!slice->is_moe[layer] && slice->ffn_size == 0) return 0;
    if (!slice->is_moe[layer]) {
        gemms[0] = plain_gemm(hidden, inner_width(slice, slice->ffn_size), ROWS_GATHERED);
        gemms[1] = plain_gemm(slice->ffn_size, hidden, ROWS_ALL);
        return 2;
    }
    const int64_t top_k = slice->expert_top_k;
    const int64_t rows = saturating_multiply(share->routed_tokens, top_k);
    const int64_t met = rows < slice->expert_count ? rows : slice->expert_count;
    const int64_t inner = inner_width(slice, slice->expert_ffn_size);
    const int64_t up = hidden * inner;
    const int64_t down = slice->expert_ffn_size * hidden;
    int count = 0;
    gemms[count++] = (gemm){1,
                            hidden,
                            share->whole->expert_count,
                            slice->router_weight_count,
                            slice->router_weight_count,
                            ROWS_OWN,
                            false};
    gemms[count++] = (gemm){top_k, hidden, inner, up, up * met, ROWS_ROUTED, false};
    gemms[count++] =
        (gemm){top_k, slice->expert_ffn_size, hidden, down, down * met, ROWS_ROUTED, false};
    if (slice->shared_ffn_size > 0) {
        gemms[count] =
            plain_gemm(hidden, inner_width(slice, slice->shared_ffn_size), ROWS_GATHERED);
        gemms[count++].shares_input = true;
        gemms[count++] = plain_gemm(slice->shared_ffn_size, hidden, ROWS_ALL);
    }
    return count;
}

/// Tokens that a product works on.
static int64_t worked_tokens(const gemm *product, const gpu_share *share)
{
    if (product->rows == ROWS_OWN) return share->own_tokens;
    return product->rows == ROWS_ROUTED ? share->routed_tokens : share->tokens;
}

/// Bytes of a number on both sides of a product and of its weights. F and B read one side and write
/// the other, wide, and read the weights; W reads both sides and adds to the gradients.
static int64_t product_bytes(const gemm *product, const gpu_share *share, model_pass pass)
{
    const bool is_weight = pass == MODEL_PASS_BACKWARD_WEIGHT;
    const int64_t weight_bytes = is_weight ? 2 * GRADIENT_BYTES : share->operand_bytes;
    const int64_t in_bytes =
        pass == MODEL_PASS_BACKWARD_INPUT ? share->wide_bytes : share->operand_bytes;
    const int64_t out_bytes = pass == MODEL_PASS_FORWARD ? share->wide_bytes : share->operand_bytes;
    const int64_t side_bytes =
        product->rows_per_token * (product->in * in_bytes + product->out * out_bytes);
    return saturating_add(saturating_multiply(worked_tokens(product, share), side_bytes),
                          saturating_multiply(product->weights_held, weight_bytes));
}

/// Every pass multiplies as often: F rows by weights, B gradients by weights, W rows by gradients.
static model_product product_of(const gemm *from, const gpu_share *share)
{
    const int64_t tokens = worked_tokens(from, share);
    const int64_t rows = saturating_multiply(tokens, from->rows_per_token);
    const int64_t groups = from->rows == ROWS_ROUTED && from->weights_met > 0
                               ? from->weights_held / from->weights_met
                               : 1;
    model_product product = {
        .rows = divided(rows, groups > 0 ? groups : 1),
        .in = from->in,
        .out = from->out,
        .groups = groups,
        .flop = saturating_multiply(tokens, 2 * from->rows_per_token * from->weights_met),
    };
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        product.bytes[pass] = product_bytes(from, share, (model_pass)pass);
    }
    return product;
}

static void make_products(const gemm *gemms, int count, const gpu_share *share,
                          model_product products[MODEL_PRODUCTS_MAX])
{
    for (int g = 0; g < count; g++) {
        products[g] = product_of(&gemms[g], share);
    }
}

/// All products of a part in one pass.
static model_work products_work(const model_product *products, int count, model_pass pass)
{
    model_work work = {0, 0};
    for (int product = 0; product < count; product++) {
        work.flop = saturating_add(work.flop, products[product].flop);
        work.bytes = saturating_add(work.bytes, products[product].bytes[pass]);
    }
    return work;
}

/// Pairs of a query and a key, over all heads and samples of a GPU, times 2: causal attention with
/// a window w meets w (2s - w) / 2 of s^2. The ranks of a context group have equal parts.
static int64_t doubled_causal_pairs(const gpu_share *share, const model_shape *shape)
{
    const int64_t length = shape->sequence_length;
    int64_t window = length;
    if (share->slice.sliding_window > 0 && share->slice.sliding_window < length) {
        window = share->slice.sliding_window;
    }
    const int64_t per_head = saturating_multiply(window, 2 * length - window);
    const int64_t heads = (int64_t)share->slice.head_count * shape->microbatch_size;
    return divided(saturating_multiply(per_head, heads),
                   model_parallel_filled(shape->parallel).context);
}

static int64_t full_pairs(const gpu_share *share, const model_shape *shape)
{
    const int64_t length = shape->sequence_length;
    const int64_t heads = (int64_t)share->slice.head_count * shape->microbatch_size;
    return divided(saturating_multiply(length * length, heads),
                   model_parallel_filled(shape->parallel).context);
}

/// One kernel in each direction. Backward computes the scores again: 5 products instead of the 2
/// of forward, 3 of them of query_key_dim. Source: Dao, FlashAttention-2 (2023), section 4.1.
static model_work flash_work(const gpu_share *share, const model_shape *shape, bool is_forward)
{
    const int64_t query_key = share->slice.query_key_dim;
    const int64_t value = share->slice.value_dim;
    const int64_t flop_per_pair = is_forward ? query_key + value : 3 * query_key + 2 * value;
    const int64_t one_way = core_input_width(&share->slice) + core_output_width(&share->slice);
    return (model_work){
        .flop = saturating_multiply(doubled_causal_pairs(share, shape), flop_per_pair),
        .bytes =
            saturating_multiply(share->tokens, one_way * share->wide_bytes * (is_forward ? 1 : 2)),
    };
}

/// Forward writes the scores; softmax reads and writes them; dropout does so again; the product
/// with the values reads them. Backward: see the count below. All s^2 pairs, masked or not.
static model_work unfused_work(const gpu_share *share, const model_shape *shape, bool is_forward)
{
    const model_config *slice = &share->slice;
    const int64_t mask = slice->has_attention_dropout ? MASK_BYTES : 0;
    const int64_t dropout_accesses = slice->has_attention_dropout ? 2 : 0;
    // Forward: write, read, write, read. Backward: dropped probabilities read for the gradient of
    // the values; their own gradient written and, with the probabilities, read by softmax; its
    // result written, and read for queries and for keys. Kernels that mask and normalise at once
    // are of 16 bits; others read and write the scores once more for the mask.
    const int64_t mask_accesses = share->wide_bytes > 2 ? 2 : 0;
    const int64_t accesses = (is_forward ? 4 : 7) + dropout_accesses + mask_accesses;
    const int64_t flop_per_pair =
        2 * ((int64_t)slice->query_key_dim + slice->value_dim) * (is_forward ? 1 : 2);
    const int64_t pairs = full_pairs(share, shape);
    const int64_t one_way = core_input_width(slice) + core_output_width(slice);
    const int64_t vectors =
        saturating_multiply(share->tokens, one_way * share->wide_bytes * (is_forward ? 1 : 2));
    return (model_work){
        .flop = saturating_multiply(pairs, flop_per_pair),
        .bytes = saturating_add(vectors,
                                saturating_multiply(pairs, accesses * share->wide_bytes + mask)),
    };
}

/// A state-space mixer: a convolution along the tokens; then, chunk by chunk, products within the
/// chunk, into a state, and out of that of the chunk before; then a gated norm. B makes twice as
/// many products, and reads and writes gradients beside what F does; and it makes again the
/// convolution and the states, which F does not keep.
/// Source: Dao & Gu, Transformers are SSMs (Mamba-2), arXiv 2405.21060, section 6;
/// mamba_split_conv1d_scan_combined, which Megatron-Core runs.
static model_work mamba_work(const gpu_share *share, bool is_forward)
{
    const model_config *slice = &share->slice;
    const int64_t width = model_mamba_width(slice);
    const int64_t state = model_mamba_state_width(slice);
    const int64_t chunk = slice->mamba_chunk_size;
    const int64_t within = chunk * (state / 2 + width); // the causal half, a multiply-add being 2
    const int64_t into = 2 * (int64_t)slice->mamba_state_size * width;
    const int64_t states = 2 * slice->mamba_state_size * width / chunk * 2; // 32 bits
    const int64_t made = 2 * (width + state) + width + state + states;      // convolution, into
    const int64_t accesses = made + 2 * width + state + 3 * width;          // out, gated norm
    const int64_t times = is_forward ? 1 : 2;
    const int64_t again = is_forward ? 0 : 1;
    return (model_work){
        .flop = saturating_multiply(share->tokens, times * (within + 2 * into) + again * into),
        .bytes = saturating_multiply(share->tokens,
                                     (times * accesses + again * made) * share->wide_bytes),
    };
}

static model_work attention_work(const gpu_share *share, const model_shape *shape, model_pass pass)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return (model_work){0, 0};
    const bool is_forward = pass == MODEL_PASS_FORWARD;
    if (share->slice.mamba_head_count > 0) return mamba_work(share, is_forward);
    if (share->slice.head_count == 0) return (model_work){0, 0};
    return shape->attention == MODEL_ATTENTION_UNFUSED ? unfused_work(share, shape, is_forward)
                                                       : flash_work(share, shape, is_forward);
}

/// Numbers that enter the activation function of an MLP or a shared expert, per token.
static int64_t activation_width(const model_config *config, int layer)
{
    return config->is_moe[layer] ? config->shared_ffn_size : config->ffn_size;
}

/// Those that enter the ones of experts, per routed token: each of its rows counts.
static int64_t routed_activation_width(const model_config *config, int layer)
{
    return config->is_moe[layer] ? (int64_t)config->expert_top_k * config->expert_ffn_size : 0;
}

/// Whether a gated activation is two operators, of which the second keeps what the first made.
static bool is_activated_in_parts(const gpu_share *share)
{
    return share->is_eager && share->slice.has_gated_mlp;
}

/// Numbers that an activation function reads and writes; backward reads a gradient as well, and
/// writes as many as it reads of the rest. In parts it writes what the gate made, and reads it; B
/// also reads it, and writes and reads its gradient.
static int64_t activation_accesses(const gpu_share *share, int64_t activated, bool is_forward)
{
    const int64_t between = is_activated_in_parts(share) ? activated * (is_forward ? 2 : 3) : 0;
    return inner_width(&share->slice, activated) * (is_forward ? 1 : 2) + activated + between;
}

/// Inputs of the norms of latent attention's compressed vectors.
static int64_t latent_norm_width(const model_config *config)
{
    return config->head_count > 0 ? (int64_t)config->query_rank + config->kv_rank : 0;
}

/// Inputs of the norms of queries and keys.
static int64_t head_norm_width(const model_config *config)
{
    return config->has_query_key_norm ? query_width(config) + key_width(config) : 0;
}

static int64_t rotated_width(const model_config *config)
{
    if (config->has_learned_positions) return 0;
    if (config->head_count == 0) return 0;
    if (config->kv_rank > 0) return (int64_t)config->rope_dim * (config->head_count + 1);
    return query_width(config) + key_width(config);
}

/// Share of the copies of a token for one GPU that are not sent.
static double share_sent_once(const gpu_share *share, const model_shape *shape)
{
    const bool is_spread = share->whole->expert_count > share->slice.expert_count;
    return is_spread ? fmax(shape->parallel.expert_deduplication, 0) : 0;
}

/// Numbers per own token that are read and written to sort its rows by their experts, and to sum
/// them when they are back. Kernels that send a token once do both themselves.
static int64_t sorted_width(const gpu_share *share, const model_shape *shape)
{
    const int64_t row = 2 * (share->slice.expert_top_k + 1) * (int64_t)share->slice.hidden_size;
    return llround((1 - share_sent_once(share, shape)) * (double)row);
}

/// Numbers per routed token that are read and written where its experts are: rows that come from
/// other GPUs are sorted by expert, and back; a token that came once is copied to each of its
/// experts there, and what they make of it is summed. Formats whose scales are of blocks need no
/// more: the router fills up its map (Megatron's moe_router_padding_for_quantization).
static int64_t moved_for_experts(const gpu_share *share, const model_shape *shape)
{
    const model_config *slice = &share->slice;
    const double once = share_sent_once(share, shape);
    const double top_k = slice->expert_top_k;
    const double met = gpus_met(share->whole, shape->parallel.expert);
    const bool is_spread = share->whole->expert_count > slice->expert_count;
    const double rows = (1 - once) * 4 * top_k + once * 2 * (met + top_k);
    return is_spread ? llround(rows * slice->hidden_size) : 0;
}

/// Numbers per routed token that experts with biases (GPT-OSS) read and write operator by operator:
/// both halves of the inner vector are clamped and put together again; the last bias is weighed,
/// added expert by expert, and the parts are put together.
/// Source: Megatron-Core, fused_bias_geglu.py and TEGroupedMLP._apply_bias.
static int64_t biased_experts_width(const model_config *config, bool is_forward)
{
    if (!config->has_mlp_bias) return 0;
    const int64_t inner = inner_width(config, config->expert_ffn_size);
    const int64_t row = is_forward ? 4 * inner + 6 * (int64_t)config->hidden_size
                                   : 5 * inner + 8 * (int64_t)config->hidden_size;
    return config->expert_top_k * row;
}

/// Numbers per token of queries, keys and values of latent attention, which are put together from
/// their parts, and taken apart again in B.
static int64_t assembled_width(const model_config *config)
{
    if (config->kv_rank == 0 || config->head_count == 0) return 0;
    return core_input_width(config);
}

/// Numbers per token of the kernels that are no matrix products.
typedef struct elementwise_widths {
    int64_t own_norms; // for the GPU's own tokens
    int64_t own_rest;
    int64_t head_norms;
    int64_t activation;
    int64_t rest;
    int64_t routed_activation; // for tokens routed to its experts
    int64_t routed_rest;
} elementwise_widths;

/// What is as wide as the hidden vector is done for the GPU's own tokens. The gradients of norms
/// and biases belong to B: their kernels make both at once.
static elementwise_widths elementwise_of(const gpu_share *share, const model_shape *shape,
                                         int layer, bool is_forward)
{
    const model_config *slice = &share->slice;
    const int64_t hidden = slice->hidden_size;
    const int64_t accesses = is_forward ? 2 : 3; // backward reads the input, two gradients pass
    const int64_t blocks = model_config_block_count(slice, layer);
    elementwise_widths widths = {
        .own_norms = (blocks * hidden + latent_norm_width(slice)) * accesses,
        .own_rest = blocks * 3 * hidden, // residuals: read two, write one
        .head_norms = head_norm_width(slice) * accesses,
        .activation = activation_accesses(share, activation_width(slice, layer), is_forward),
        .rest = 2 * (rotated_width(slice) + assembled_width(slice)),
        .routed_activation =
            activation_accesses(share, routed_activation_width(slice, layer), is_forward),
    };
    // The activation of experts weighs its output; B sums what it was multiplied by, in a kernel of
    // its own.
    const int64_t routed = routed_activation_width(slice, layer);
    if (!is_forward) widths.routed_activation += inner_width(slice, routed) + routed;
    if (slice->is_moe[layer]) {
        widths.own_rest += sorted_width(share, shape);
        widths.routed_rest =
            moved_for_experts(share, shape) + biased_experts_width(slice, is_forward);
    }
    // Forward drops within the residual's kernel.
    if (slice->has_residual_dropout && !is_forward) widths.own_rest += blocks * 2 * hidden;
    return widths;
}

static int64_t elementwise_bytes(const gpu_share *share, const elementwise_widths *widths,
                                 int64_t mask_bytes)
{
    const int64_t own = widths->own_norms + widths->own_rest;
    const int64_t all = widths->head_norms + widths->activation + widths->rest;
    const int64_t routed = widths->routed_activation + widths->routed_rest;
    const int64_t own_bytes =
        saturating_multiply(share->own_tokens, own * share->wide_bytes + mask_bytes);
    return saturating_add(
        own_bytes,
        saturating_add(saturating_multiply(share->tokens, all * share->wide_bytes),
                       saturating_multiply(share->routed_tokens, routed * share->wide_bytes)));
}

static int64_t dropout_mask_bytes(const model_config *slice, int layer)
{
    if (!slice->has_residual_dropout) return 0;
    return model_config_block_count(slice, layer) * slice->hidden_size * MASK_BYTES;
}

/// Times that a cast reads: formats with a scale for the whole, of the numbers at hand, once more
/// for the largest: float8 by its usual recipe of today (current scaling), NVFP4 beside the scales
/// of blocks. Source: NVIDIA Transformer Engine, recipes Float8CurrentScaling, MXFP8 and NVFP4.
static int64_t cast_reads(model_dtype dtype)
{
    return dtype == MODEL_DTYPE_MXFLOAT8 ? 1 : 2;
}

/// Bytes of casting what products multiply to a narrow format: read wide, written twice, for the
/// product and, turned, for that of W. Weights are cast once in an iteration, which is not counted.
static int64_t cast_bytes(const model_product *products, int count, const model_shape *shape,
                          model_pass pass)
{
    const int64_t wide = model_dtype_bytes(model_dtype_wide(shape->dtype));
    const int64_t narrow = model_dtype_bytes(shape->dtype);
    int64_t bytes = 0;
    if (narrow == wide || pass == MODEL_PASS_BACKWARD_WEIGHT) return 0;
    for (int product = 0; product < count; product++) {
        const model_product *from = &products[product];
        const int64_t width = pass == MODEL_PASS_FORWARD ? from->in : from->out;
        const int64_t numbers =
            saturating_multiply(saturating_multiply(from->rows, from->groups), width);
        bytes = saturating_add(
            bytes, saturating_multiply(numbers, cast_reads(shape->dtype) * wide + 2 * narrow));
    }
    return bytes;
}

/// Those of all products of a layer.
static int64_t all_cast_bytes(const model_layer_work *work, const model_shape *shape,
                              model_pass pass)
{
    return saturating_add(cast_bytes(work->projections, work->projection_count, shape, pass),
                          cast_bytes(work->mlps, work->mlp_count, shape, pass));
}

/// Kernels of a layer beside products, as Megatron starts them: norms, rotation, core, activation,
/// residuals; unfused masks, softmax, dropout and copies between layouts of heads; experts' router
/// with its sort, permutations and counts.
static int64_t stream_kernels(const model_config *config, const model_shape *shape, int layer,
                              bool is_forward)
{
    const bool is_unfused = shape->attention == MODEL_ATTENTION_UNFUSED;
    const int64_t blocks = model_config_block_count(config, layer);
    int64_t kernels = (is_unfused ? (is_forward ? 14 : 24) : (is_forward ? 8 : 12)) * blocks / 2;
    if (config->mamba_head_count > 0) kernels += is_forward ? 6 : 12;
    if (config->kv_rank > 0) kernels += is_forward ? 6 : 10;
    if (config->has_query_key_norm) kernels += is_forward ? 2 : 4;
    if (shape->parallel.eager && config->has_gated_mlp) kernels++;
    if (config->is_moe[layer]) kernels += is_forward ? 80 : 90;
    return kernels;
}

/// Kernels that cast: experts' rows one expert after the other (Transformer Engine,
/// multi_tensor_quantize_impl).
static int64_t cast_kernels(const model_layer_work *work, model_dtype dtype)
{
    int64_t tensors = 0;
    for (int product = 0; product < work->projection_count; product++) {
        tensors += work->projections[product].groups;
    }
    for (int product = 0; product < work->mlp_count; product++) {
        tensors += work->mlps[product].groups;
    }
    return tensors * cast_reads(dtype);
}

static model_launches launches_of(const model_config *config, const model_shape *shape, int layer,
                                  model_pass pass, const model_layer_work *work)
{
    const int64_t groups = work->mlp_count > 1 ? work->mlps[1].groups : 1;
    const int64_t products = work->projection_count + work->mlp_count;
    const bool is_narrow = model_dtype_wide(shape->dtype) != shape->dtype;
    // Frameworks of the time before fused attention wrap every product of a block into functions
    // for collectives, whether or not there is anybody to talk to (Megatron-LM, tensor_parallel).
    const bool has_collectives =
        shape->parallel.tensor > 1 || shape->attention == MODEL_ATTENTION_UNFUSED;
    const int64_t collectives = has_collectives ? 4 : 0;
    model_launches launches = {.operator_count = products};
    // Of each expert: the product; in narrow formats also the cast and its scales, twice laid out.
    if (groups > 1) launches.library_count = 2 * groups * (is_narrow ? 4 : 1);
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return launches;
    launches.kernel_count = stream_kernels(config, shape, layer, pass == MODEL_PASS_FORWARD);
    launches.operator_count += launches.kernel_count + collectives;
    if (is_narrow) launches.kernel_count += cast_kernels(work, shape->dtype);
    return launches;
}

model_layer_work model_layer_work_of(const model_config *config, const model_shape *shape,
                                     int layer, model_pass pass)
{
    assert(layer >= 0 && layer < config->layer_count);
    const model_config view = model_config_layer(config, layer);
    const gpu_share share = share_of(&view, shape);
    gemm gemms[MODEL_PRODUCTS_MAX];
    model_layer_work work = {.attention = attention_work(&share, shape, pass)};
    work.projection_count = list_projection_gemms(&share.slice, gemms);
    make_products(gemms, work.projection_count, &share, work.projections);
    work.mlp_count = list_mlp_gemms(&share, layer, gemms);
    make_products(gemms, work.mlp_count, &share, work.mlps);
    work.projection = products_work(work.projections, work.projection_count, pass);
    work.mlp = products_work(work.mlps, work.mlp_count, pass);
    work.launches = launches_of(&view, shape, layer, pass, &work);
    if (pass != MODEL_PASS_BACKWARD_WEIGHT) {
        const elementwise_widths widths =
            elementwise_of(&share, shape, layer, pass == MODEL_PASS_FORWARD);
        work.elementwise.bytes = saturating_add(
            elementwise_bytes(&share, &widths, dropout_mask_bytes(&share.slice, layer)),
            all_cast_bytes(&work, shape, pass));
    }
    return work;
}

/// The products that make queries, keys and values out of compressed ones stand between the first
/// and the last.
static void keep_latent_products(const model_config *slice, bool is_remade, model_layer_work *work)
{
    if (!is_remade || slice->kv_rank == 0 || slice->head_count == 0) {
        work->projection_count = 0;
        return;
    }
    work->projection_count -= 2;
    for (int product = 0; product < work->projection_count; product++) {
        work->projections[product] = work->projections[product + 1];
    }
}

/// Of queries, keys, values, the attention's output and the matrices of an MLP, one after the
/// other, every second. Keys and values are one product with queries elsewhere.
static void list_every_second_product(const gpu_share *share, model_layer_work *work)
{
    const model_config *slice = &share->slice;
    const int64_t hidden = slice->hidden_size;
    const gemm projections[] = {plain_gemm(hidden, key_width(slice), ROWS_GATHERED),
                                plain_gemm(core_output_width(slice), hidden, ROWS_ALL)};
    const gemm mlp = slice->has_gated_mlp ? plain_gemm(hidden, slice->ffn_size, ROWS_GATHERED)
                                          : plain_gemm(slice->ffn_size, hidden, ROWS_ALL);
    work->projection_count = 2;
    make_products(projections, 2, share, work->projections);
    work->mlp_count = 1;
    make_products(&mlp, 1, share, work->mlps);
}

model_layer_work model_layer_remade_work(const model_config *config, const model_shape *shape,
                                         int layer, unsigned remakes)
{
    model_layer_work work = model_layer_work_of(config, shape, layer, MODEL_PASS_FORWARD);
    if ((remakes & MODEL_REMAKES_LAYER) != 0) return work;
    const model_config view = model_config_layer(config, layer);
    const gpu_share share = share_of(&view, shape);
    const elementwise_widths all = elementwise_of(&share, shape, layer, true);
    elementwise_widths remade = {0};
    int64_t casts = 0;
    if ((remakes & MODEL_REMAKES_CORE) == 0) work.attention = (model_work){0, 0};
    if ((remakes & MODEL_REMAKES_NORMS) != 0) remade.own_norms = all.own_norms;
    if ((remakes & MODEL_REMAKES_ACTIVATION) != 0) {
        remade.activation = all.activation;
        remade.routed_activation = all.routed_activation;
    }
    if ((remakes & MODEL_REMAKES_LATENT) != 0 && view.kv_rank > 0) remade.rest = all.rest;
    if ((remakes & MODEL_REMAKES_MLP) != 0) {
        remade.routed_rest = all.routed_rest;
        if (view.is_moe[layer]) remade.own_rest = sorted_width(&share, shape);
        casts = cast_bytes(work.mlps, work.mlp_count, shape, MODEL_PASS_FORWARD);
    } else {
        work.mlp_count = 0;
        work.launches.library_count = 0;
    }
    keep_latent_products(&share.slice, (remakes & MODEL_REMAKES_LATENT) != 0, &work);
    if ((remakes & MODEL_REMAKES_PRODUCTS) != 0) {
        remade.rest = all.rest;
        remade.own_rest = all.own_rest / 2; // the residual between attention and MLP
        list_every_second_product(&share, &work);
        casts = all_cast_bytes(&work, shape, MODEL_PASS_FORWARD);
    }
    work.projection = products_work(work.projections, work.projection_count, MODEL_PASS_FORWARD);
    work.mlp = products_work(work.mlps, work.mlp_count, MODEL_PASS_FORWARD);
    work.elementwise.bytes = saturating_add(elementwise_bytes(&share, &remade, 0), casts);
    work.launches.kernel_count = 0;
    work.launches.operator_count = 0;
    return work;
}

/// The tokens' rows that another GPU has are looked up all the same, and masked. The gradient is a
/// table of its own: PyTorch zeroes it, adds the tokens' rows, and all of it is added to the sum.
model_layer_work model_embedding_work(const model_config *config, const model_shape *shape,
                                      model_pass pass)
{
    const gpu_share share = share_of(config, shape);
    const int64_t hidden = config->hidden_size;
    const int64_t tables = config->has_learned_positions ? 2 : 1;
    const int64_t mask = config->has_embedding_dropout ? hidden * MASK_BYTES : 0;
    int64_t per_token = 0;
    int64_t table = 0;
    if (pass == MODEL_PASS_FORWARD) {
        per_token = (tables + 1) * hidden * share.wide_bytes + mask;
    } else if (pass == MODEL_PASS_BACKWARD_WEIGHT) {
        per_token = (1 + 2 * tables) * hidden * share.wide_bytes + mask;
        table = saturating_multiply(model_embedding_parameters(&share.slice),
                                    2 * share.wide_bytes + 2 * GRADIENT_BYTES);
    }
    return (model_layer_work){
        .elementwise.bytes = saturating_add(saturating_multiply(share.tokens, per_token), table),
        .launches = {EMBEDDING_KERNELS, EMBEDDING_KERNELS, 0},
    };
}

model_layer_work model_head_work(const model_config *config, const model_shape *shape,
                                 model_pass pass)
{
    model_shape wide = *shape;
    wide.dtype = model_dtype_wide(shape->dtype);
    const gpu_share share = share_of(config, &wide);
    const int64_t hidden = config->hidden_size;
    const int64_t vocabulary = share.slice.vocabulary_size;
    const gemm head = plain_gemm(hidden, vocabulary, ROWS_GATHERED);
    // How often the loss reads or writes logits in 32 bits. Without fusion it is made operator by
    // operator: largest, difference, exponential, sum, quotient; PyTorch has one for log-softmax.
    const bool is_fused = shape->attention != MODEL_ATTENTION_UNFUSED;
    const bool is_eager = shape->parallel.eager_loss;
    const int forward_passes = !is_fused ? 9 : is_eager ? 4 : 2;
    const int backward_passes = !is_fused ? 3 : is_eager ? 5 : 1;
    int64_t norm = 0;
    int64_t loss = 0;
    if (pass == MODEL_PASS_FORWARD) { // norm; logits widened, then read by the loss
        norm = 2 * hidden * share.wide_bytes;
        loss = vocabulary * (share.wide_bytes + forward_passes * LOGIT_BYTES);
    } else if (pass == MODEL_PASS_BACKWARD_INPUT) { // gradient of the logits narrowed; norm
        norm = 3 * hidden * share.wide_bytes;
        loss = vocabulary * (share.wide_bytes + backward_passes * LOGIT_BYTES);
    }
    model_layer_work work = {
        .projection_count = 1,
        .launches = {HEAD_KERNELS, HEAD_KERNELS, 0},
        .elementwise.bytes = saturating_add(saturating_multiply(share.own_tokens, norm),
                                            saturating_multiply(share.tokens, loss)),
    };
    make_products(&head, 1, &share, work.projections);
    work.projection = products_work(work.projections, 1, pass);
    return work;
}

model_layer_work model_prediction_work(const model_config *config, const model_shape *shape,
                                       model_pass pass)
{
    const gpu_share share = share_of(config, shape);
    const int64_t hidden = config->hidden_size;
    const int64_t tensor = model_parallel_filled(shape->parallel).tensor;
    const gemm joined = plain_gemm(2 * hidden, divided(hidden, tensor), ROWS_GATHERED);
    // Two norms, in B with their gradients; W has the matrix alone.
    const int64_t accesses = pass == MODEL_PASS_FORWARD ? 4 : 6;
    const bool has_norms = pass != MODEL_PASS_BACKWARD_WEIGHT;
    model_layer_work work = {
        .projection_count = 1,
        .launches = {PREDICTION_KERNELS, PREDICTION_KERNELS, 0},
        .elementwise.bytes =
            has_norms ? saturating_multiply(share.own_tokens, accesses * hidden * share.wide_bytes)
                      : 0,
    };
    make_products(&joined, 1, &share, work.projections);
    work.projection = products_work(work.projections, 1, pass);
    return work;
}

int64_t model_work_flop(const model_layer_work *work)
{
    return saturating_add(saturating_add(work->projection.flop, work->attention.flop),
                          saturating_add(work->mlp.flop, work->elementwise.flop));
}

/// Bytes of the inputs of products, and of the gradients of their outputs.
typedef struct gemm_bytes {
    int64_t inputs; // all that are kept where nothing is remade
    int64_t first;  // of them: of the first product, the output of a norm
    int64_t last;   // of the last one for experts or the MLP: the activation's output
    int64_t middle; // between the first and the last
    int64_t outputs;
} gemm_bytes;

static gemm_bytes bytes_of_gemms(const gemm *gemms, int count, const gpu_share *share)
{
    gemm_bytes bytes = {0};
    for (int g = 0; g < count; g++) {
        const gemm *product = &gemms[g];
        const int64_t worked = worked_tokens(product, share);
        const bool is_again = product->rows == ROWS_GATHERED && !share->is_eager;
        const int64_t kept = is_again ? share->own_tokens : worked;
        const int64_t row_bytes = product->rows_per_token * share->operand_bytes;
        const int64_t input =
            product->shares_input ? 0 : saturating_multiply(kept, row_bytes * product->in);
        // After an activation stand the products that narrow an MLP, of experts too.
        const bool is_last = g + 1 == count || (g == 2 && product->rows == ROWS_ROUTED);
        bytes.inputs = saturating_add(bytes.inputs, input);
        if (g == 0) bytes.first = input;
        if (g > 0 && is_last) bytes.last = saturating_add(bytes.last, input);
        if (g > 0 && !is_last) bytes.middle = saturating_add(bytes.middle, input);
        bytes.outputs =
            saturating_add(bytes.outputs, saturating_multiply(worked, row_bytes * product->out));
    }
    return bytes;
}

/// Numbers that a state-space mixer keeps: what its first matrix made, the convolution's output,
/// what is normed, and the states of the chunks in 32 bits.
static int64_t mamba_kept_width(const model_config *slice)
{
    if (slice->mamba_head_count == 0) return 0;
    const int64_t width = model_mamba_width(slice);
    const int64_t states = 2 * slice->mamba_state_size * width / slice->mamba_chunk_size;
    return model_mamba_input_width(slice) + width + model_mamba_state_width(slice) + width + states;
}

/// Numbers that an activation keeps, beside its result, which the next product does.
static int64_t activation_kept_width(const gpu_share *share, int64_t activated)
{
    return inner_width(&share->slice, activated) + (is_activated_in_parts(share) ? activated : 0);
}

/// Bytes that are kept beside the inputs of products: those of norms, activations, the core and
/// the weighing of experts, masks, and the scores of unfused attention.
static int64_t other_kept_bytes(const gpu_share *share, const model_shape *shape, int layer,
                                unsigned remakes)
{
    const model_config *slice = &share->slice;
    const int64_t hidden = slice->hidden_size;
    const int64_t blocks = model_config_block_count(slice, layer);
    const bool has_mlp = (remakes & MODEL_REMAKES_MLP) == 0;
    const bool is_remade = (remakes & MODEL_REMAKES_LATENT) != 0 && slice->kv_rank > 0;
    int64_t own = blocks * hidden + latent_norm_width(slice);
    if (slice->is_moe[layer] && has_mlp) own += slice->expert_top_k * hidden; // weighed
    const int64_t masks = dropout_mask_bytes(slice, layer);
    int64_t all = mamba_kept_width(slice) + head_norm_width(slice);
    if (!is_remade) all += core_input_width(slice);
    if (has_mlp) all += activation_kept_width(share, activation_width(slice, layer));
    const int64_t routed =
        has_mlp ? activation_kept_width(share, routed_activation_width(slice, layer)) : 0;
    int64_t scores = 0;
    if (shape->attention == MODEL_ATTENTION_UNFUSED && (remakes & MODEL_REMAKES_CORE) == 0) {
        const int64_t dropped = slice->has_attention_dropout ? share->wide_bytes + MASK_BYTES : 0;
        scores = saturating_multiply(full_pairs(share, shape), share->wide_bytes + dropped);
    }
    const int64_t vectors =
        saturating_add(saturating_multiply(share->own_tokens, own * share->wide_bytes + masks),
                       saturating_multiply(share->tokens, all * share->wide_bytes));
    return saturating_add(saturating_add(vectors, scores),
                          saturating_multiply(share->routed_tokens, routed * share->wide_bytes));
}

/// Of those bytes, the ones that B makes again.
static int64_t remade_bytes(const gemm_bytes *projections, const gemm_bytes *mlps,
                            const model_config *slice, unsigned remakes)
{
    int64_t bytes = 0;
    if ((remakes & MODEL_REMAKES_NORMS) != 0) {
        bytes = saturating_add(projections->first, mlps->first);
    }
    if ((remakes & MODEL_REMAKES_LATENT) != 0 && slice->kv_rank > 0) {
        bytes = saturating_add(bytes, projections->middle);
    }
    if ((remakes & MODEL_REMAKES_ACTIVATION) != 0) bytes = saturating_add(bytes, mlps->last);
    if ((remakes & MODEL_REMAKES_MLP) != 0) bytes = saturating_add(bytes, mlps->middle);
    return bytes;
}

/// What is kept where every second product is made again: the layer's input, queries, values, the
/// core's output, the first matrix of the MLP; and what the attention's sum over tensor ranks gave.
static int64_t every_second_kept_bytes(const gpu_share *share, const model_shape *shape)
{
    const model_config *slice = &share->slice;
    const int64_t own = (int64_t)slice->hidden_size * (shape->parallel.tensor > 1 ? 2 : 1);
    const int64_t all =
        core_input_width(slice) - key_width(slice) + core_output_width(slice) + slice->ffn_size;
    return saturating_add(saturating_multiply(share->own_tokens, own * share->wide_bytes),
                          saturating_multiply(share->tokens, all * share->wide_bytes));
}

static int64_t layer_kept_bytes(const gpu_share *share, const model_shape *shape, int layer,
                                unsigned remakes, int64_t kept_inputs)
{
    if ((remakes & (MODEL_REMAKES_LAYER | MODEL_REMAKES_NOTHING)) != 0) {
        return model_message_bytes(share->whole, shape);
    }
    if ((remakes & MODEL_REMAKES_PRODUCTS) != 0) return every_second_kept_bytes(share, shape);
    return saturating_add(kept_inputs, other_kept_bytes(share, shape, layer, remakes));
}

model_memory model_layer_memory(const model_config *config, const model_shape *shape, int layer)
{
    assert(layer >= 0 && layer < config->layer_count);
    const model_config view = model_config_layer(config, layer);
    const unsigned remakes = model_layer_remakes(&shape->parallel, layer, config->layer_count);
    const gpu_share share = share_of(&view, shape);
    gemm gemms[MODEL_PRODUCTS_MAX];
    const gemm_bytes projections =
        bytes_of_gemms(gemms, list_projection_gemms(&share.slice, gemms), &share);
    const gemm_bytes mlps = bytes_of_gemms(gemms, list_mlp_gemms(&share, layer, gemms), &share);
    const int64_t inputs = saturating_add(projections.inputs, mlps.inputs);
    const int64_t kept = inputs - remade_bytes(&projections, &mlps, &share.slice, remakes);
    return (model_memory){
        .activation_bytes = layer_kept_bytes(&share, shape, layer, remakes, kept),
        .gradient_bytes = saturating_add(inputs, saturating_add(projections.outputs, mlps.outputs)),
    };
}

model_memory model_embedding_memory(const model_config *config, const model_shape *shape)
{
    const gpu_share share = share_of(config, shape);
    const int64_t hidden = config->hidden_size;
    const int64_t mask = config->has_embedding_dropout ? hidden * MASK_BYTES : 0;
    const int64_t kept = saturating_add(saturating_multiply(share.tokens, TOKEN_BYTES),
                                        saturating_multiply(share.own_tokens, mask));
    return (model_memory){
        .activation_bytes = kept,
        .gradient_bytes =
            saturating_add(kept, saturating_multiply(share.tokens, hidden * share.wide_bytes)),
    };
}

model_memory model_head_memory(const model_config *config, const model_shape *shape)
{
    const gpu_share share = share_of(config, shape);
    const int64_t hidden = config->hidden_size;
    const int64_t vocabulary = share.slice.vocabulary_size;
    const int64_t normed = saturating_multiply(share.own_tokens, hidden * share.wide_bytes);
    const int64_t inputs = saturating_multiply(share.is_eager ? share.tokens : share.own_tokens,
                                               hidden * share.wide_bytes);
    const int eager = shape->parallel.tensor > 1 ? SPLIT_LOSS_COPIES : EAGER_LOSS_COPIES;
    const int copies = shape->parallel.eager_loss ? eager : LOSS_COPIES;
    return (model_memory){
        .activation_bytes =
            saturating_add(saturating_add(normed, inputs),
                           saturating_multiply(share.tokens, vocabulary * copies * LOGIT_BYTES)),
        .gradient_bytes = saturating_add(
            inputs, saturating_multiply(share.tokens, vocabulary * share.wide_bytes)),
    };
}

int64_t model_message_bytes(const model_config *config, const model_shape *shape)
{
    return saturating_multiply(own_tokens_of(shape),
                               (int64_t)config->hidden_size *
                                   model_dtype_bytes(model_dtype_wide(shape->dtype)));
}
