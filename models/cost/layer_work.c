#include "models/cost/layer_work.h"

#include "base/text.h"
#include "models/cost/config.h"
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
typedef enum token_rows {
    ROWS_ALL,      ///< works on all, keeps all: its input is a slice of the width already
    ROWS_GATHERED, ///< works on all, keeps the GPU's own: the rest is gathered again for W, unless
                   ///< operators run one by one
    ROWS_OWN,      ///< works on the GPU's own: its weights are whole on every GPU
    ROWS_ROUTED,   ///< works on those routed to the GPU's experts, keeps them as they arrived
    ROWS_COUNT
} token_rows;

/// A matrix product with parameters. Widths are numbers per row; a token is rows_per_token rows.
typedef struct gemm {
    int64_t rows_per_token;
    int64_t in;
    int64_t out;
    int64_t weights_met;  // that one row is multiplied by
    int64_t weights_held; // that all rows together need
    token_rows rows;
    bool shares_input; // the product before it keeps the same input
} gemm;

static gemm plain_gemm(int64_t in, int64_t out, token_rows rows)
{
    const int64_t weights = saturating_multiply(in, out);
    return (gemm){1, in, out, weights, weights, rows, false};
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

/// What one GPU has of a model, or of one layer of it, and of a microbatch.
typedef struct gpu_share {
    const model_config *whole;
    const model_shape *shape;
    model_config slice;
    bool has_experts;
    int64_t blocks; // with a norm and a residual
    int64_t tokens[ROWS_COUNT];
    int64_t operand_bytes; // of matrix products
    int64_t wide_bytes;    // of everything else
} gpu_share;

static gpu_share share_of(const model_config *config, const model_shape *shape)
{
    return (gpu_share){
        .whole = config,
        .shape = shape,
        .slice = model_gpu_slice(config, &shape->parallel),
        .tokens = {[ROWS_ALL] = model_shape_tokens(shape),
                   [ROWS_GATHERED] = model_shape_tokens(shape),
                   [ROWS_OWN] = own_tokens_of(shape),
                   [ROWS_ROUTED] = model_shape_routed_tokens(shape)},
        .operand_bytes = model_dtype_bytes(shape->dtype),
        .wide_bytes = model_dtype_bytes(model_dtype_wide(shape->dtype)),
    };
}

/// @param view of the layer
static gpu_share share_of_layer(const model_config *view, const model_shape *shape, int layer)
{
    gpu_share share = share_of(view, shape);
    share.has_experts = view->is_moe[layer];
    share.blocks = model_config_block_count(&share.slice, layer);
    return share;
}

/// Bytes of so many wide numbers for each token.
static int64_t wide_bytes_of(const gpu_share *share, token_rows rows, int64_t width)
{
    return saturating_multiply(share->tokens[rows], width * share->wide_bytes);
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
    return saturating_add(saturating_multiply(share->tokens[product->rows], side_bytes),
                          saturating_multiply(product->weights_held, weight_bytes));
}

/// Every pass multiplies as often: F rows by weights, B gradients by weights, W rows by gradients.
static void add_product(const gpu_share *share, gemm from, model_products *to)
{
    const int64_t tokens = share->tokens[from.rows];
    const int64_t rows = saturating_multiply(tokens, from.rows_per_token);
    const int64_t row_bytes = from.rows_per_token * share->operand_bytes;
    const bool is_gathered_again = from.rows == ROWS_GATHERED && !share->shape->parallel.eager;
    const int64_t kept = share->tokens[is_gathered_again ? ROWS_OWN : from.rows];
    const int64_t groups =
        from.rows == ROWS_ROUTED && from.weights_met > 0 ? from.weights_held / from.weights_met : 1;
    model_product *product = &to->items[to->count++];
    *product = (model_product){
        .rows = divided(rows, groups > 0 ? groups : 1),
        .in = from.in,
        .out = from.out,
        .groups = groups,
        .flop = saturating_multiply(2 * rows, from.weights_met),
        .kept_bytes = from.shares_input ? 0 : saturating_multiply(kept, row_bytes * from.in),
        .out_bytes = saturating_multiply(tokens, row_bytes * from.out),
    };
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        product->bytes[pass] = product_bytes(&from, share, (model_pass)pass);
    }
}

static void add_plain(const gpu_share *share, int64_t in, int64_t out, token_rows rows,
                      model_products *to)
{
    add_product(share, plain_gemm(in, out, rows), to);
}

/// The matrices that compress latent queries, keys and values are whole on every GPU.
static model_products projections_of(const gpu_share *share)
{
    const model_config *slice = &share->slice;
    const int64_t hidden = slice->hidden_size;
    const int64_t output = core_output_width(slice);
    model_products to = {.count = 0};
    if (slice->mamba_head_count > 0) {
        add_plain(share, hidden, model_mamba_input_width(slice), ROWS_GATHERED, &to);
        add_plain(share, model_mamba_width(slice), hidden, ROWS_ALL, &to);
    }
    if (slice->head_count == 0) return to;
    if (slice->kv_rank == 0) {
        add_plain(share, hidden, core_input_width(slice), ROWS_GATHERED, &to);
    } else {
        const bool compresses = slice->query_rank > 0;
        const int64_t query = compresses ? slice->query_rank : query_width(slice);
        const int64_t content_dim = slice->query_key_dim - slice->rope_dim;
        add_plain(share, hidden, query + slice->kv_rank + slice->rope_dim,
                  compresses ? ROWS_OWN : ROWS_GATHERED, &to);
        if (compresses) add_plain(share, query, query_width(slice), ROWS_GATHERED, &to);
        add_plain(share, slice->kv_rank, slice->head_count * content_dim + output, ROWS_GATHERED,
                  &to);
    }
    add_plain(share, output, hidden, ROWS_ALL, &to);
    return to;
}

int64_t model_mixer_weight_count(const model_config *view)
{
    static const model_shape nothing = {0};
    const gpu_share whole = {.shape = &nothing, .slice = *view};
    const model_products products = projections_of(&whole);
    int64_t count = 0;
    for (int product = 0; product < products.count; product++) {
        const model_product *matrix = &products.items[product];
        count = saturating_add(count, saturating_multiply(matrix->in, matrix->out));
    }
    return count;
}

/// The two matrices of an MLP of this width; none of width 0.
static void add_mlp(const gpu_share *share, int64_t ffn_size, bool shares_input,
                    model_products *products)
{
    const int64_t hidden = share->slice.hidden_size;
    gemm first = plain_gemm(hidden, inner_width(&share->slice, ffn_size), ROWS_GATHERED);
    first.shares_input = shares_input;
    if (ffn_size == 0) return;
    add_product(share, first, products);
    add_plain(share, ffn_size, hidden, ROWS_ALL, products);
}

static model_products mlps_of(const gpu_share *share)
{
    const model_config *slice = &share->slice;
    const int64_t hidden = slice->hidden_size;
    model_products products = {.count = 0};
    if (!share->has_experts) {
        add_mlp(share, slice->ffn_size, false, &products);
        return products;
    }
    const int64_t top_k = slice->expert_top_k;
    const int64_t rows = saturating_multiply(share->tokens[ROWS_ROUTED], top_k);
    const int64_t met = rows < slice->expert_count ? rows : slice->expert_count;
    const int64_t width = slice->expert_ffn_size;
    const int64_t inner = inner_width(slice, width);
    const int64_t row = model_config_expert_width(slice);
    const int64_t up = row * inner;
    const int64_t down = width * row;
    const int64_t router = slice->router_weight_count;
    const gemm gemms[] = {
        {1, hidden, share->whole->expert_count, router, router, ROWS_OWN, false},
        {top_k, row, inner, up, up * met, ROWS_ROUTED, false},
        {top_k, width, row, down, down * met, ROWS_ROUTED, false},
    };
    for (size_t each = 0; each < sizeof gemms / sizeof gemms[0]; each++) {
        add_product(share, gemms[each], &products);
    }
    if (slice->expert_latent_size > 0) { // whole on every GPU
        gemm compression = plain_gemm(hidden, row, ROWS_OWN);
        compression.shares_input = true;
        add_product(share, compression, &products);
        add_plain(share, row, hidden, ROWS_OWN, &products);
    }
    add_mlp(share, slice->shared_ffn_size, true, &products);
    return products;
}

/// All products of a part in one pass.
static model_work products_work(const model_products *products, model_pass pass)
{
    model_work work = {0, 0};
    for (int product = 0; product < products->count; product++) {
        work.flop = saturating_add(work.flop, products->items[product].flop);
        work.bytes = saturating_add(work.bytes, products->items[product].bytes[pass]);
    }
    return work;
}

/// Pairs of a query and a key, over all heads and samples of a GPU, times 2: causal attention with
/// a window w meets w (2s - w) / 2 of s^2. The ranks of a context group have equal parts. With a
/// window of s these are all s^2.
static int64_t doubled_pairs(const gpu_share *share, int64_t window)
{
    const model_shape *shape = share->shape;
    const int64_t per_head =
        saturating_multiply(window, 2 * (int64_t)shape->sequence_length - window);
    const int64_t heads = (int64_t)share->slice.head_count * shape->microbatch_size;
    return divided(saturating_multiply(per_head, heads),
                   model_parallel_filled(shape->parallel).context);
}

static int64_t full_pairs(const gpu_share *share)
{
    return doubled_pairs(share, share->shape->sequence_length);
}

static int64_t causal_pairs(const gpu_share *share)
{
    const int64_t length = share->shape->sequence_length;
    const int64_t window = share->slice.sliding_window;
    return doubled_pairs(share, window > 0 && window < length ? window : length);
}

/// Queries, keys, values and outputs of the core, in B with their gradients.
static int64_t core_vector_bytes(const gpu_share *share, bool is_forward)
{
    const int64_t one_way = core_input_width(&share->slice) + core_output_width(&share->slice);
    return wide_bytes_of(share, ROWS_ALL, one_way * (is_forward ? 1 : 2));
}

/// One kernel in each direction. Backward computes the scores again: 5 products instead of the 2
/// of forward, 3 of them of query_key_dim. Source: Dao, FlashAttention-2 (2023), section 4.1.
static model_work flash_work(const gpu_share *share, bool is_forward)
{
    const int64_t query_key = share->slice.query_key_dim;
    const int64_t value = share->slice.value_dim;
    const int64_t flop_per_pair = is_forward ? query_key + value : 3 * query_key + 2 * value;
    return (model_work){
        .flop = saturating_multiply(causal_pairs(share), flop_per_pair),
        .bytes = core_vector_bytes(share, is_forward),
    };
}

/// Forward writes the scores; softmax reads and writes them; dropout does so again; the product
/// with the values reads them. Backward: see the count below. All s^2 pairs, masked or not.
static model_work unfused_work(const gpu_share *share, bool is_forward)
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
    const int64_t pairs = full_pairs(share);
    return (model_work){
        .flop = saturating_multiply(pairs, flop_per_pair),
        .bytes = saturating_add(core_vector_bytes(share, is_forward),
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
        .flop = saturating_multiply(share->tokens[ROWS_ALL],
                                    times * (within + 2 * into) + again * into),
        .bytes = wide_bytes_of(share, ROWS_ALL, times * accesses + again * made),
    };
}

static model_work attention_work(const gpu_share *share, model_pass pass)
{
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return (model_work){0, 0};
    const bool is_forward = pass == MODEL_PASS_FORWARD;
    if (share->slice.mamba_head_count > 0) return mamba_work(share, is_forward);
    if (share->slice.head_count == 0) return (model_work){0, 0};
    return share->shape->attention == MODEL_ATTENTION_UNFUSED ? unfused_work(share, is_forward)
                                                              : flash_work(share, is_forward);
}

/// Whether a gated activation is two operators, of which the second keeps what the first made.
static bool is_activated_in_parts(const gpu_share *share)
{
    return share->shape->parallel.eager && share->slice.has_gated_mlp;
}

/// Numbers that an activation function reads and writes; backward reads a gradient as well, and
/// writes as many as it reads of the rest. In parts it writes what the gate made, and reads it; B
/// also reads it, and writes and reads its gradient.
static int64_t activation_accesses(const gpu_share *share, int64_t activated, bool is_forward)
{
    const int64_t between = is_activated_in_parts(share) ? activated * (is_forward ? 2 : 3) : 0;
    return inner_width(&share->slice, activated) * (is_forward ? 1 : 2) + activated + between;
}

/// Numbers that an activation keeps, beside its result, which the next product does.
static int64_t activation_kept_width(const gpu_share *share, int64_t activated)
{
    return inner_width(&share->slice, activated) + (is_activated_in_parts(share) ? activated : 0);
}

static int64_t rotated_width(const model_config *config)
{
    if (config->has_learned_positions) return 0;
    if (config->head_count == 0) return 0;
    if (config->kv_rank > 0) return (int64_t)config->rope_dim * (config->head_count + 1);
    return query_width(config) + key_width(config);
}

/// Share of the copies of a token for one GPU that are not sent.
static double share_sent_once(const gpu_share *share)
{
    const bool is_spread = share->whole->expert_count > share->slice.expert_count;
    return is_spread ? fmax(share->shape->parallel.expert_deduplication, 0) : 0;
}

/// Numbers per own token that are read and written to sort its rows by their experts, and to sum
/// them when they are back. Kernels that send a token once do both themselves.
static int64_t sorted_width(const gpu_share *share)
{
    const int64_t row =
        2 * (share->slice.expert_top_k + 1) * (int64_t)model_config_expert_width(&share->slice);
    return llround((1 - share_sent_once(share)) * (double)row);
}

/// Numbers per routed token that are read and written where its experts are: rows that come from
/// other GPUs are sorted by expert, and back; a token that came once is copied to each of its
/// experts there, and what they make of it is summed. Formats whose scales are of blocks need no
/// more: the router fills up its map (Megatron's moe_router_padding_for_quantization).
static int64_t moved_for_experts(const gpu_share *share)
{
    const model_config *slice = &share->slice;
    const double once = share_sent_once(share);
    const double top_k = slice->expert_top_k;
    const double met = gpus_met(share->whole, share->shape->parallel.expert);
    const bool is_spread = share->whole->expert_count > slice->expert_count;
    const double rows = (1 - once) * 4 * top_k + once * 2 * (met + top_k);
    return is_spread ? llround(rows * model_config_expert_width(slice)) : 0;
}

/// Numbers per routed token that experts with biases (GPT-OSS) read and write operator by operator:
/// both halves of the inner vector are clamped and put together again; the last bias is weighed,
/// added expert by expert, and the parts are put together, of 16 bits in 32 where a token is sent
/// once, as its weight then is.
/// Source: Megatron-Core, fused_bias_geglu.py, TEGroupedMLP._apply_bias and fused_a2a.py.
static int64_t biased_experts_width(const gpu_share *share, bool is_forward)
{
    const model_config *config = &share->slice;
    if (!config->has_mlp_bias) return 0;
    const double once = share->wide_bytes == 2 ? share_sent_once(share) : 0;
    const double hidden = is_forward ? 6 + 8 * once : 8 + 10 * once;
    const int64_t inner = inner_width(config, config->expert_ffn_size);
    const int64_t row =
        (is_forward ? 4 : 5) * inner + llround(hidden * model_config_expert_width(config));
    return config->expert_top_k * row;
}

/// Whether norms and rotation are made of PyTorch's operators, in 32 bits.
static bool is_normed_in_parts(const gpu_share *share)
{
    return share->shape->parallel.eager && !share->shape->parallel.fused_norms;
}

/// Accesses to one number that a norm reads and writes as often as it must; and what it keeps of
/// it. PyTorch's own RMSNorm widens its input, squares it, takes the mean, scales, narrows and
/// multiplies with the weight, each for itself; B the same backwards, with the power's and the
/// weight's gradient in parts, too. Of 16 bits; of 32 nothing is widened. Its LayerNorm is one.
/// Source: PyTorch, layer_norm.cpp (rms_norm) and derivatives.yaml (pow, mul, mean).
typedef struct norm_accesses {
    int64_t forward;
    int64_t backward;
    int64_t kept;
} norm_accesses;

/// Norms of a layer that are made in parts.
static int64_t parted_norms(const gpu_share *share)
{
    const model_config *slice = &share->slice;
    if (!is_normed_in_parts(share) || slice->norm != MODEL_NORM_RMS) return 0;
    if (slice->head_count == 0) return share->blocks;
    return share->blocks + (slice->has_query_key_norm ? 2 : 0) + (slice->kv_rank > 0 ? 1 : 0) +
           (slice->query_rank > 0 ? 1 : 0);
}

static norm_accesses norm_accesses_of(const gpu_share *share)
{
    if (parted_norms(share) == 0) return (norm_accesses){2, 3, 1};
    return share->wide_bytes == 2 ? (norm_accesses){18, 46, 3} : (norm_accesses){7, 23, 2};
}

/// Accesses to a number that is rotated: in parts it is widened, multiplied and narrowed.
static int64_t rotation_accesses(const gpu_share *share)
{
    return is_normed_in_parts(share) && share->wide_bytes == 2 ? 10 : 2;
}

/// Numbers per token of queries, keys and values of latent attention, which are put together from
/// their parts, and taken apart again in B.
static int64_t assembled_width(const model_config *config)
{
    if (config->kv_rank == 0 || config->head_count == 0) return 0;
    return core_input_width(config);
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

/// Kernels of one purpose that stream through memory: numbers per token.
typedef struct stream {
    token_rows rows;
    int64_t forward; // read and written in F
    int64_t backward;
    int64_t kept;    // from F to B
    unsigned remade; // with these MODEL_REMAKES_... B does it again
    unsigned freed;  // with these nothing of it is kept
} stream;

typedef struct stream_list {
    stream items[12]; // [count]
    int count;
} stream_list;

static void add_stream(stream_list *to, stream added)
{
    added.remade |= MODEL_REMAKES_LAYER;
    to->items[to->count++] = added;
}

static void add_mlp_streams(const gpu_share *share, stream_list *to)
{
    const model_config *slice = &share->slice;
    // Numbers that enter the activation function of an MLP or a shared expert, per token; and those
    // that enter the ones of experts, per routed token: each of its rows counts.
    const int64_t activated = share->has_experts ? slice->shared_ffn_size : slice->ffn_size;
    const int64_t routed = (int64_t)slice->expert_top_k * slice->expert_ffn_size;
    stream activation = {ROWS_ALL,
                         activation_accesses(share, activated, true),
                         activation_accesses(share, activated, false),
                         activation_kept_width(share, activated),
                         MODEL_REMAKES_ACTIVATION,
                         MODEL_REMAKES_MLP};
    add_stream(to, activation);
    if (!share->has_experts) return;
    // The activation of experts weighs its output; B sums what it was multiplied by, in a kernel of
    // its own.
    activation.rows = ROWS_ROUTED;
    activation.forward = activation_accesses(share, routed, true);
    activation.backward =
        activation_accesses(share, routed, false) + inner_width(slice, routed) + routed;
    activation.kept = activation_kept_width(share, routed);
    add_stream(to, activation);
    const int64_t sorted = sorted_width(share);
    const int64_t weighed = (int64_t)slice->expert_top_k * model_config_expert_width(slice);
    const int64_t moved = moved_for_experts(share);
    const unsigned mlp = MODEL_REMAKES_MLP;
    add_stream(to, (stream){ROWS_OWN, sorted, sorted, weighed, mlp, mlp});
    add_stream(to, (stream){ROWS_ROUTED, moved + biased_experts_width(share, true),
                            moved + biased_experts_width(share, false), 0, mlp, mlp});
}

/// What is as wide as the hidden vector is done for the GPU's own tokens. The gradients of norms
/// and biases belong to B: their kernels make both at once; they read the input, and two gradients
/// pass.
static stream_list streams_of(const gpu_share *share)
{
    const model_config *slice = &share->slice;
    const int64_t hidden = slice->hidden_size;
    const int64_t norms = share->blocks * hidden +
                          (slice->head_count > 0 ? (int64_t)slice->query_rank + slice->kv_rank : 0);
    const int64_t head_norms =
        slice->has_query_key_norm ? query_width(slice) + key_width(slice) : 0;
    const int64_t residual = 3 * hidden; // read two, write one; F drops in the same kernel
    const int64_t backward = slice->has_residual_dropout ? residual + 2 * hidden : residual;
    const int64_t others = share->blocks - 1;
    const int64_t placed =
        rotation_accesses(share) * rotated_width(slice) + 2 * assembled_width(slice);
    const norm_accesses norm = norm_accesses_of(share);
    const unsigned latent = slice->kv_rank > 0 ? MODEL_REMAKES_LATENT : 0;
    stream_list to = {.count = 0};
    add_stream(&to, (stream){ROWS_OWN, norm.forward * norms, norm.backward * norms,
                             norm.kept * norms, MODEL_REMAKES_NORMS, 0});
    add_stream(&to, (stream){ROWS_OWN, residual, backward, 0, MODEL_REMAKES_PRODUCTS, 0});
    add_stream(&to, (stream){ROWS_OWN, others * residual, others * backward, 0, 0, 0});
    add_stream(&to, (stream){ROWS_ALL, norm.forward * head_norms, norm.backward * head_norms,
                             norm.kept * head_norms, 0, 0});
    add_stream(&to, (stream){ROWS_ALL, placed, placed, core_input_width(slice),
                             latent | MODEL_REMAKES_PRODUCTS, latent});
    add_stream(&to, (stream){ROWS_ALL, .kept = mamba_kept_width(slice)}); // the core's
    add_mlp_streams(share, &to);
    return to;
}

/// Bytes of numbers per token of each kind.
static int64_t bytes_of_widths(const gpu_share *share, const int64_t width[ROWS_COUNT])
{
    int64_t bytes = 0;
    for (int rows = 0; rows < ROWS_COUNT; rows++) {
        bytes = saturating_add(bytes, wide_bytes_of(share, (token_rows)rows, width[rows]));
    }
    return bytes;
}

/// What streams read and write in F or B, of those that B makes again with these remakes.
static int64_t stream_bytes(const gpu_share *share, bool is_forward, unsigned remakes)
{
    const stream_list streams = streams_of(share);
    int64_t width[ROWS_COUNT] = {0};
    for (const stream *each = streams.items; each < streams.items + streams.count; each++) {
        if ((each->remade & remakes) == 0) continue;
        width[each->rows] += is_forward ? each->forward : each->backward;
    }
    return bytes_of_widths(share, width);
}

static int64_t dropout_mask_bytes(const gpu_share *share)
{
    if (!share->slice.has_residual_dropout) return 0;
    return saturating_multiply(share->tokens[ROWS_OWN],
                               share->blocks * share->slice.hidden_size * MASK_BYTES);
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
static int64_t cast_bytes(const gpu_share *share, const model_products *products, model_pass pass)
{
    const int64_t wide = share->wide_bytes;
    const int64_t narrow = share->operand_bytes;
    int64_t bytes = 0;
    if (narrow == wide || pass == MODEL_PASS_BACKWARD_WEIGHT) return 0;
    for (int product = 0; product < products->count; product++) {
        const model_product *from = &products->items[product];
        const int64_t width = pass == MODEL_PASS_FORWARD ? from->in : from->out;
        const int64_t numbers =
            saturating_multiply(saturating_multiply(from->rows, from->groups), width);
        bytes = saturating_add(
            bytes,
            saturating_multiply(numbers, cast_reads(share->shape->dtype) * wide + 2 * narrow));
    }
    return bytes;
}

/// Those of all products of a layer.
static int64_t all_cast_bytes(const gpu_share *share, const model_layer_work *work, model_pass pass)
{
    return saturating_add(cast_bytes(share, &work->projections, pass),
                          cast_bytes(share, &work->mlps, pass));
}

/// Kernels of a layer beside products, as Megatron starts them: norms, rotation, core, activation,
/// residuals; unfused masks, softmax, dropout and copies between layouts of heads; experts' router
/// with its sort, permutations and counts.
static int64_t stream_kernels(const gpu_share *share, bool is_forward)
{
    const model_config *config = &share->slice;
    const bool is_unfused = share->shape->attention == MODEL_ATTENTION_UNFUSED;
    int64_t kernels =
        (is_unfused ? (is_forward ? 14 : 24) : (is_forward ? 8 : 12)) * share->blocks / 2;
    if (config->mamba_head_count > 0) kernels += is_forward ? 6 : 12;
    if (config->kv_rank > 0) kernels += is_forward ? 6 : 10;
    if (config->has_query_key_norm) kernels += is_forward ? 2 : 4;
    if (is_activated_in_parts(share)) kernels++;
    if (share->has_experts) kernels += is_forward ? 80 : 90;
    return kernels;
}

/// Kernels that cast: experts' rows one expert after the other (Transformer Engine,
/// multi_tensor_quantize_impl).
static int64_t cast_kernels(const model_products *products, model_dtype dtype)
{
    int64_t tensors = 0;
    for (int product = 0; product < products->count; product++) {
        tensors += products->items[product].groups;
    }
    return tensors * cast_reads(dtype);
}

static model_launches launches_of(const gpu_share *share, model_pass pass,
                                  const model_layer_work *work)
{
    const model_shape *shape = share->shape;
    const int64_t groups = work->mlps.count > 1 ? work->mlps.items[1].groups : 1;
    const bool is_narrow = model_dtype_wide(shape->dtype) != shape->dtype;
    // Frameworks of the time before fused attention wrap every product of a block into functions
    // for collectives, whether or not there is anybody to talk to (Megatron-LM, tensor_parallel).
    const bool has_collectives =
        shape->parallel.tensor > 1 || shape->attention == MODEL_ATTENTION_UNFUSED;
    const int64_t collectives = has_collectives ? 4 : 0;
    model_launches launches = {.operator_count = work->projections.count + work->mlps.count};
    // Of each expert: the product; in narrow formats also the cast and its scales, twice laid out.
    if (groups > 1) launches.library_count = 2 * groups * (is_narrow ? 4 : 1);
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return launches;
    launches.kernel_count = stream_kernels(share, pass == MODEL_PASS_FORWARD);
    launches.operator_count += launches.kernel_count + collectives;
    // A norm of 8 and 17 operators, a rotation of 6, each way.
    const bool rotates = is_normed_in_parts(share) && rotated_width(&share->slice) > 0;
    const int64_t parts = pass == MODEL_PASS_FORWARD ? 7 : 15;
    const int64_t parted = parts * parted_norms(share) + (rotates ? 5 : 0);
    launches.library_count += parted;
    launches.kernel_count += parted;
    if (share->has_experts && share->slice.has_mlp_bias) {
        // Weighed and added expert by expert; B multiplies both gradients, and sums them, and
        // narrows one.
        const int64_t added = (pass == MODEL_PASS_FORWARD ? 2 : 5) * groups;
        launches.library_count += added;
        launches.kernel_count += added;
    }
    if (!is_narrow) return launches;
    launches.kernel_count +=
        cast_kernels(&work->projections, shape->dtype) + cast_kernels(&work->mlps, shape->dtype);
    return launches;
}

model_layer_work model_layer_work_of(const model_config *config, const model_shape *shape,
                                     int layer, model_pass pass)
{
    assert(layer >= 0 && layer < config->layer_count);
    const model_config view = model_config_layer(config, layer);
    const gpu_share share = share_of_layer(&view, shape, layer);
    model_layer_work work = {.attention = attention_work(&share, pass),
                             .projections = projections_of(&share),
                             .mlps = mlps_of(&share)};
    work.projection = products_work(&work.projections, pass);
    work.mlp = products_work(&work.mlps, pass);
    work.launches = launches_of(&share, pass, &work);
    if (pass == MODEL_PASS_BACKWARD_WEIGHT) return work;
    work.elementwise.bytes = stream_bytes(&share, pass == MODEL_PASS_FORWARD, MODEL_REMAKES_LAYER);
    work.elementwise.bytes = saturating_add(work.elementwise.bytes, dropout_mask_bytes(&share));
    work.elementwise.bytes =
        saturating_add(work.elementwise.bytes, all_cast_bytes(&share, &work, pass));
    return work;
}

/// The products that make queries, keys and values out of compressed ones stand between the first
/// and the last.
static void keep_latent_products(const model_config *slice, bool is_remade,
                                 model_products *products)
{
    if (!is_remade || slice->kv_rank == 0 || slice->head_count == 0) {
        products->count = 0;
        return;
    }
    products->count -= 2;
    memmove(products->items, products->items + 1, (size_t)products->count * sizeof(model_product));
}

/// Of queries, keys, values, the attention's output and the matrices of an MLP, one after the
/// other, every second. Keys and values are one product with queries elsewhere.
static void list_every_second_product(const gpu_share *share, model_layer_work *work)
{
    const model_config *slice = &share->slice;
    const int64_t hidden = slice->hidden_size;
    work->projections.count = work->mlps.count = 0;
    add_plain(share, hidden, key_width(slice), ROWS_GATHERED, &work->projections);
    add_plain(share, core_output_width(slice), hidden, ROWS_ALL, &work->projections);
    if (slice->has_gated_mlp) {
        add_plain(share, hidden, slice->ffn_size, ROWS_GATHERED, &work->mlps);
    } else {
        add_plain(share, slice->ffn_size, hidden, ROWS_ALL, &work->mlps);
    }
}

/// Without the last product and the residual after it. Experts' last product stays: what brings
/// their rows back into order keeps that order for B.
static void leave_out_end(const gpu_share *share, model_layer_work *work)
{
    model_products *products = work->mlps.count > 0 ? &work->mlps : &work->projections;
    const int64_t residual = wide_bytes_of(share, ROWS_OWN, 3 * (int64_t)share->slice.hidden_size);
    work->elementwise.bytes -= all_cast_bytes(share, work, MODEL_PASS_FORWARD) + residual;
    if (!share->has_experts && products->count > 0) products->count--;
    work->elementwise.bytes += all_cast_bytes(share, work, MODEL_PASS_FORWARD);
    work->projection = products_work(&work->projections, MODEL_PASS_FORWARD);
    work->mlp = products_work(&work->mlps, MODEL_PASS_FORWARD);
    work->launches = launches_of(share, MODEL_PASS_FORWARD, work);
    work->launches.kernel_count--;
    work->launches.operator_count--;
}

model_layer_work model_layer_remade_work(const model_config *config, const model_shape *shape,
                                         int layer, unsigned remakes)
{
    model_layer_work work = model_layer_work_of(config, shape, layer, MODEL_PASS_FORWARD);
    const model_config view = model_config_layer(config, layer);
    const gpu_share share = share_of_layer(&view, shape, layer);
    if ((remakes & MODEL_REMAKES_NO_END) != 0) leave_out_end(&share, &work);
    if ((remakes & MODEL_REMAKES_LAYER) != 0) return work;
    int64_t casts = 0;
    if ((remakes & MODEL_REMAKES_CORE) == 0) work.attention = (model_work){0, 0};
    if ((remakes & MODEL_REMAKES_MLP) != 0) {
        casts = cast_bytes(&share, &work.mlps, MODEL_PASS_FORWARD);
    } else {
        work.mlps.count = 0;
        work.launches.library_count = 0;
    }
    keep_latent_products(&share.slice, (remakes & MODEL_REMAKES_LATENT) != 0, &work.projections);
    if ((remakes & MODEL_REMAKES_PRODUCTS) != 0) {
        list_every_second_product(&share, &work);
        casts = all_cast_bytes(&share, &work, MODEL_PASS_FORWARD);
    }
    work.projection = products_work(&work.projections, MODEL_PASS_FORWARD);
    work.mlp = products_work(&work.mlps, MODEL_PASS_FORWARD);
    work.elementwise.bytes = saturating_add(stream_bytes(&share, true, remakes), casts);
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
        .elementwise.bytes =
            saturating_add(saturating_multiply(share.tokens[ROWS_ALL], per_token), table),
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
        .launches = {HEAD_KERNELS, HEAD_KERNELS, 0},
        .elementwise.bytes = saturating_add(saturating_multiply(share.tokens[ROWS_OWN], norm),
                                            saturating_multiply(share.tokens[ROWS_ALL], loss)),
    };
    add_plain(&share, hidden, vocabulary, ROWS_GATHERED, &work.projections);
    work.projection = products_work(&work.projections, pass);
    return work;
}

model_layer_work model_prediction_work(const model_config *config, const model_shape *shape,
                                       model_pass pass)
{
    const gpu_share share = share_of(config, shape);
    const int64_t hidden = config->hidden_size;
    const int64_t tensor = model_parallel_filled(shape->parallel).tensor;
    // Two norms, in B with their gradients; W has the matrix alone.
    const int64_t accesses = pass == MODEL_PASS_FORWARD ? 4 : 6;
    const bool has_norms = pass != MODEL_PASS_BACKWARD_WEIGHT;
    model_layer_work work = {
        .launches = {PREDICTION_KERNELS, PREDICTION_KERNELS, 0},
        .elementwise.bytes = has_norms ? wide_bytes_of(&share, ROWS_OWN, accesses * hidden) : 0,
    };
    add_plain(&share, 2 * hidden, divided(hidden, tensor), ROWS_GATHERED, &work.projections);
    work.projection = products_work(&work.projections, pass);
    return work;
}

int64_t model_work_flop(const model_layer_work *work)
{
    return saturating_add(saturating_add(work->projection.flop, work->attention.flop),
                          saturating_add(work->mlp.flop, work->elementwise.flop));
}

/// What a product's input is made again with: that of the first is the output of a norm, that of
/// the products which narrow an MLP, of experts too, the output of an activation.
static unsigned input_remakes(const gpu_share *share, const model_products *products, int product,
                              bool is_mlp)
{
    const bool narrows_experts = is_mlp && share->has_experts && product == 2;
    const bool expands = is_mlp && share->slice.expert_latent_size > 0 && product == 4;
    if (product == 0) return MODEL_REMAKES_NORMS;
    if (expands) return MODEL_REMAKES_MLP;
    if (product + 1 == products->count || narrows_experts) {
        return is_mlp ? MODEL_REMAKES_ACTIVATION : 0;
    }
    if (is_mlp) return MODEL_REMAKES_MLP;
    return share->slice.kv_rank > 0 ? MODEL_REMAKES_LATENT : 0;
}

/// Bytes that are kept of the inputs of products.
static int64_t kept_input_bytes(const gpu_share *share, const model_layer_work *work,
                                unsigned remakes)
{
    int64_t bytes = 0;
    for (int list = 0; list < 2; list++) {
        const model_products *products = list == 0 ? &work->projections : &work->mlps;
        for (int product = 0; product < products->count; product++) {
            if ((input_remakes(share, products, product, list == 1) & remakes) != 0) continue;
            bytes = saturating_add(bytes, products->items[product].kept_bytes);
        }
    }
    return bytes;
}

/// Bytes of the gradients of products' outputs.
static int64_t output_bytes(const model_layer_work *work)
{
    int64_t bytes = 0;
    for (int product = 0; product < work->projections.count; product++) {
        bytes = saturating_add(bytes, work->projections.items[product].out_bytes);
    }
    for (int product = 0; product < work->mlps.count; product++) {
        bytes = saturating_add(bytes, work->mlps.items[product].out_bytes);
    }
    return bytes;
}

/// Bytes that are kept beside the inputs of products: what streams keep, masks, and the scores of
/// unfused attention.
static int64_t other_kept_bytes(const gpu_share *share, unsigned remakes)
{
    const stream_list streams = streams_of(share);
    int64_t width[ROWS_COUNT] = {0};
    int64_t scores = 0;
    for (const stream *each = streams.items; each < streams.items + streams.count; each++) {
        if ((each->freed & remakes) == 0) width[each->rows] += each->kept;
    }
    if (share->shape->attention == MODEL_ATTENTION_UNFUSED && (remakes & MODEL_REMAKES_CORE) == 0) {
        const bool drops = share->slice.has_attention_dropout;
        const int64_t dropped = drops ? share->wide_bytes + MASK_BYTES : 0;
        scores = saturating_multiply(full_pairs(share), share->wide_bytes + dropped);
    }
    return saturating_add(saturating_add(bytes_of_widths(share, width), dropout_mask_bytes(share)),
                          scores);
}

/// What is kept where every second product is made again: the layer's input, queries, values, the
/// core's output, the first matrix of the MLP; and what the attention's sum over tensor ranks gave.
static int64_t every_second_kept_bytes(const gpu_share *share)
{
    const model_config *slice = &share->slice;
    const int64_t width[ROWS_COUNT] = {
        [ROWS_OWN] = (int64_t)slice->hidden_size * (share->shape->parallel.tensor > 1 ? 2 : 1),
        [ROWS_ALL] =
            core_input_width(slice) - key_width(slice) + core_output_width(slice) + slice->ffn_size,
    };
    return bytes_of_widths(share, width);
}

static int64_t layer_kept_bytes(const gpu_share *share, unsigned remakes, int64_t kept_inputs)
{
    if ((remakes & (MODEL_REMAKES_LAYER | MODEL_REMAKES_NOTHING)) != 0) {
        return model_message_bytes(share->whole, share->shape);
    }
    if ((remakes & MODEL_REMAKES_PRODUCTS) != 0) return every_second_kept_bytes(share);
    return saturating_add(kept_inputs, other_kept_bytes(share, remakes));
}

model_memory model_layer_memory(const model_config *config, const model_shape *shape, int layer)
{
    assert(layer >= 0 && layer < config->layer_count);
    const model_config view = model_config_layer(config, layer);
    const unsigned remakes = model_layer_remakes(&shape->parallel, layer, config->layer_count);
    const gpu_share share = share_of_layer(&view, shape, layer);
    const model_layer_work work = {.projections = projections_of(&share), .mlps = mlps_of(&share)};
    return (model_memory){
        .activation_bytes =
            layer_kept_bytes(&share, remakes, kept_input_bytes(&share, &work, remakes)),
        .gradient_bytes = saturating_add(kept_input_bytes(&share, &work, 0), output_bytes(&work)),
    };
}

model_memory model_embedding_memory(const model_config *config, const model_shape *shape)
{
    const gpu_share share = share_of(config, shape);
    const int64_t hidden = config->hidden_size;
    const int64_t mask = config->has_embedding_dropout ? hidden * MASK_BYTES : 0;
    const int64_t kept = saturating_add(saturating_multiply(share.tokens[ROWS_ALL], TOKEN_BYTES),
                                        saturating_multiply(share.tokens[ROWS_OWN], mask));
    return (model_memory){
        .activation_bytes = kept,
        .gradient_bytes = saturating_add(kept, wide_bytes_of(&share, ROWS_ALL, hidden)),
    };
}

model_memory model_head_memory(const model_config *config, const model_shape *shape)
{
    const gpu_share share = share_of(config, shape);
    const int64_t hidden = config->hidden_size;
    const int64_t vocabulary = share.slice.vocabulary_size;
    const int64_t normed = wide_bytes_of(&share, ROWS_OWN, hidden);
    const int64_t inputs = shape->parallel.eager ? wide_bytes_of(&share, ROWS_ALL, hidden) : normed;
    const int eager = shape->parallel.tensor > 1 ? SPLIT_LOSS_COPIES : EAGER_LOSS_COPIES;
    const int copies = shape->parallel.eager_loss ? eager : LOSS_COPIES;
    return (model_memory){
        .activation_bytes = saturating_add(
            saturating_add(normed, inputs),
            saturating_multiply(share.tokens[ROWS_ALL], vocabulary * copies * LOGIT_BYTES)),
        .gradient_bytes = saturating_add(inputs, wide_bytes_of(&share, ROWS_ALL, vocabulary)),
    };
}

static int64_t own_vector_bytes(const model_shape *shape, int width)
{
    return saturating_multiply(own_tokens_of(shape),
                               (int64_t)width * model_dtype_bytes(model_dtype_wide(shape->dtype)));
}

int64_t model_message_bytes(const model_config *config, const model_shape *shape)
{
    return own_vector_bytes(shape, config->hidden_size);
}

int64_t model_expert_row_bytes(const model_config *config, const model_shape *shape)
{
    return own_vector_bytes(shape, model_config_expert_width(config));
}
