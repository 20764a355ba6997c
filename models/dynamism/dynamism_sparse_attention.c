/// Dynamic sparse attention: queries meet only keys of their hash bucket, and what that leaves of
/// the core differs from layer to layer and from iteration to iteration.
#include "models/cost/kernel_time.h"
#include "models/cost/saturating.h"
#include "models/dynamism/dynamism_case.h"
#include "models/dynamism/hash_attention.h"

#include <inttypes.h>

enum { STREAM_SKEW = 1, STREAM_HASH };

typedef struct sparse_state {
    model_case of;
    int end;
    int column_count;
    const double *given; // [given_count] kept shares, one for all layers or one each; NULL: hashed
    int given_count;
    int buckets;
    int tile;
    int sequence_length;
    double *popularity;                    // [end - first][MODEL_HASH_POPULARITIES] of buckets
    double kernel_ratio[MODEL_PASS_COUNT]; // the sparse kernel keeping all over the base's core
    double least_kept[MODEL_PASS_COUNT];   // what reading and writing vectors takes of it
    double *kept;                          // [layer_count][column_count] published
    model_load *load;                      // physical
} sparse_state;

static status read_given(sparse_state *sparse, error_message *err)
{
    model_case_parameters *parameters = sparse->of.parameters;
    const int blocks = sparse->end - sparse->of.first;
    TRY(model_parameter_doubles(parameters, "kept", 0, 1, blocks, &sparse->given,
                                &sparse->given_count, err));
    if (sparse->given == NULL) return STATUS_OK;
    if (sparse->given_count != 1 && sparse->given_count != blocks) {
        return json_error(json_member(parameters->object, "kept"), STATUS_INVALID, err,
                          "%d numbers for %d transformer layers", sparse->given_count, blocks);
    }
    return STATUS_OK;
}

static status check_hashable(sparse_state *sparse, error_message *err)
{
    const model_dynamism_base *base = sparse->of.base;
    if (base->shape == NULL) {
        return error_set(err, STATUS_INVALID,
                         "case 'sparse-attention': without a model the sequence length is not "
                         "known: name the model beside the trace, or state \"kept\"");
    }
    const int window = base->config->sliding_window;
    if (window > 0 && window < base->shape->sequence_length) {
        return error_set(err, STATUS_INVALID,
                         "case 'sparse-attention': a sliding window of %d keys leaves other "
                         "tiles than causal attention does: state \"kept\"",
                         window);
    }
    sparse->sequence_length = base->shape->sequence_length;
    return STATUS_OK;
}

/// What hashing is done with; a layer's skew stays with it.
static status read_hashing(sparse_state *sparse, error_message *err)
{
    const model_origin released =
        MODEL_PUBLISHED("Pagliardini et al., arXiv 2306.01160, and its code");
    double skew = 0;
    double spread = 0;
    const model_parameter rows[] = {
        {"buckets", .whole = &sparse->buckets, .fallback = 16, .min = 1,
         .max = MODEL_HASH_BUCKETS_MAX, .from = released},
        {"tile", .whole = &sparse->tile, .fallback = 128, .min = 16, .max = 1 << 20,
         .from = released},
        {"skew", .real = &skew, .fallback = 0.5, .max = 5,
         .from = MODEL_ASSUMED("not published: deviation of the logarithm of a bucket's "
                               "popularity, one draw for all heads and samples")},
        {"skew_spread", .real = &spread, .fallback = 1, .max = 1,
         .from = MODEL_ASSUMED("not published: skews of layers uniform within this share of it")},
    };
    TRY(check_hashable(sparse, err));
    const size_t blocks = (size_t)(sparse->end - sparse->of.first);
    sparse->popularity =
        arena_array(sparse->of.memory, blocks * MODEL_HASH_POPULARITIES, sizeof(double));
    TRY(model_parameters_read(sparse->of.parameters, rows, sizeof rows / sizeof rows[0], err));
    for (int block = 0; block < sparse->end - sparse->of.first; block++) {
        rng random = model_case_stream(sparse->of.seed, STREAM_SKEW, block, 0, 0);
        const double own = skew * (1 + spread * (2 * rng_unit(&random) - 1));
        model_hash_popularities(&random, own,
                                sparse->popularity + (size_t)block * MODEL_HASH_POPULARITIES);
    }
    return STATUS_OK;
}

/// The sparse kernel is a flash kernel: what it takes with all tiles, against the core of the base.
static void compare_kernels(sparse_state *sparse, int pass)
{
    const model_dynamism_base *base = sparse->of.base;
    model_shape flash = *base->shape;
    flash.attention = MODEL_ATTENTION_FLASH;
    const model_config view = model_config_layer(base->config, 0);
    const model_work now =
        model_layer_work_of(base->config, base->shape, 0, (model_pass)pass).attention;
    const model_work dense =
        model_layer_work_of(base->config, &flash, 0, (model_pass)pass).attention;
    const int64_t now_ns =
        model_attention_ns(&view, base->shape, now, (model_pass)pass, base->hardware);
    const int64_t dense_ns =
        model_attention_ns(&view, &flash, dense, (model_pass)pass, base->hardware);
    const int64_t vectors_ns = model_streams_ns(dense.bytes, 0, base->hardware);
    if (now_ns == 0 || dense_ns == 0) return;
    sparse->kernel_ratio[pass] = (double)dense_ns / (double)now_ns;
    sparse->least_kept[pass] = (double)vectors_ns / (double)dense_ns;
}

static void choose_kernel(sparse_state *sparse)
{
    const model_dynamism_base *base = sparse->of.base;
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        sparse->kernel_ratio[pass] = 1;
    }
    if (base->config == NULL || base->hardware == NULL ||
        base->hardware->flop_per_s[model_dtype_wide(base->shape->dtype)] == 0) {
        model_parameter_note(sparse->of.parameters, "kernel",
                             MODEL_ASSUMED("no model or no rates beside the costs"),
                             "as fast as the base's, in proportion to the kept tiles");
        return;
    }
    for (int pass = 0; pass < MODEL_PASS_BACKWARD_WEIGHT; pass++) {
        compare_kernels(sparse, pass);
    }
    if (base->shape->attention == MODEL_ATTENTION_UNFUSED) {
        model_shape flash = *base->shape;
        flash.attention = MODEL_ATTENTION_FLASH;
        const model_memory now = model_layer_memory(base->config, base->shape, 0);
        const model_memory fused = model_layer_memory(base->config, &flash, 0);
        for (int layer = sparse->of.first; layer < sparse->end; layer++) {
            sparse->load->activation[layer] =
                (double)fused.activation_bytes / (double)now.activation_bytes;
        }
    }
    model_parameter_note(
        sparse->of.parameters, "kernel",
        MODEL_ASSUMED("a flash kernel by the cost model, in proportion to the kept tiles, no "
                      "faster than its vectors can be read and written"),
        "with all tiles %.3g x the core in F, %.3g x in B",
        sparse->kernel_ratio[MODEL_PASS_FORWARD], sparse->kernel_ratio[MODEL_PASS_BACKWARD_INPUT]);
}

/// Bytes that hashing, sorting and gathering move in a pass, of one microbatch, on one GPU. F reads
/// queries and keys to hash them, sorts hash and order (8 bytes each) in 8 passes, gathers three
/// kinds of vectors and scatters the output into zeros; B gathers its gradient and adds three into
/// zeros.
static int64_t sorting_bytes(const model_config *config, const model_shape *shape, int pass)
{
    enum { SORT_BYTES = 16, SORT_PASSES = 8 };
    const model_config slice = model_gpu_slice(config, &shape->parallel);
    const int64_t heads = slice.head_count;
    const int64_t kv_heads = slice.kv_head_count;
    const int64_t query_and_key = (heads + kv_heads) * slice.query_key_dim;
    const int64_t inputs = query_and_key + kv_heads * slice.value_dim;
    const int64_t outputs = heads * slice.value_dim;
    const int64_t number_bytes = model_dtype_bytes(model_dtype_wide(shape->dtype));
    const int64_t forward = number_bytes * (query_and_key + 2 * inputs + 3 * outputs) +
                            2 * SORT_PASSES * SORT_BYTES * (heads + kv_heads);
    const int64_t backward = number_bytes * (2 * outputs + 4 * inputs);
    return saturating_multiply(model_shape_tokens(shape),
                               pass == MODEL_PASS_FORWARD ? forward : backward);
}

static status add_sorting(sparse_state *sparse, error_message *err)
{
    const model_dynamism_base *base = sparse->of.base;
    bool is_counted = true;
    const model_parameter row = {"sorting", .flag = &is_counted, .fallback = 1,
                                 .from = MODEL_ASSUMED("hashing, sorting and gathering take time")};
    TRY(model_parameters_read(sparse->of.parameters, &row, 1, err));
    if (!is_counted) return STATUS_OK;
    if (base->config == NULL || base->hardware == NULL) {
        model_parameter_note(sparse->of.parameters, "sorting_time",
                             MODEL_ASSUMED("no model or no hardware beside the costs"), "0 ns");
        return STATUS_OK;
    }
    int64_t pass_ns[MODEL_PASS_BACKWARD_WEIGHT];
    for (int pass = 0; pass < MODEL_PASS_BACKWARD_WEIGHT; pass++) {
        const int64_t bytes = sorting_bytes(base->config, base->shape, pass);
        pass_ns[pass] = model_case_bytes_ns(base->hardware, bytes);
        const size_t columns = (size_t)sparse->column_count;
        for (size_t cell = (size_t)sparse->of.first * columns; cell < (size_t)sparse->end * columns;
             cell++) {
            sparse->load->added_ns[pass][cell] = pass_ns[pass];
        }
    }
    model_parameter_note(sparse->of.parameters, "sorting_time",
                         MODEL_ASSUMED("bytes that the released code moves, over the "
                                       "bandwidth; kernel launches not counted"),
                         "%" PRId64 " ns in F, %" PRId64 " ns in B of a layer",
                         pass_ns[MODEL_PASS_FORWARD], pass_ns[MODEL_PASS_BACKWARD_INPUT]);
    return STATUS_OK;
}

static void carve(sparse_state *sparse)
{
    model_load *loads = sparse->of.load;
    const size_t layers = (size_t)sparse->of.layer_count;
    const size_t cells = layers * (size_t)sparse->column_count;
    model_load *load = sparse->load = &loads[MODEL_LOAD_PHYSICAL];
    sparse->kept = model_case_ones(sparse->of.memory, cells);
    loads[MODEL_LOAD_PUBLISHED] =
        (model_load){.column_count = sparse->column_count, .whole = sparse->kept};
    load->column_count = sparse->column_count;
    load->activation = model_case_ones(sparse->of.memory, layers);
    for (int pass = 0; pass < MODEL_PASS_BACKWARD_WEIGHT; pass++) {
        load->part[pass][MODEL_PART_ATTENTION] = model_case_ones(sparse->of.memory, cells);
        load->added_ns[pass] = arena_array(sparse->of.memory, cells, sizeof(int64_t));
    }
}

static status sparse_open(void *state, error_message *err)
{
    sparse_state *sparse = state;
    const model_dynamism_base *base = sparse->of.base;
    bool per_microbatch = false;
    const model_parameter row = {
        "per_microbatch", .flag = &per_microbatch,
        .from = MODEL_ASSUMED("one pattern for all microbatches and replicas")};
    sparse->end = base->transformer_end;
    TRY(model_parameters_read(sparse->of.parameters, &row, 1, err));
    sparse->column_count = per_microbatch ? base->microbatch_count : 1;
    carve(sparse);
    TRY(read_given(sparse, err));
    if (sparse->given == NULL) TRY(read_hashing(sparse, err));
    choose_kernel(sparse);
    TRY(add_sorting(sparse, err));
    sparse->of.source_count = per_microbatch && base->parallel.data > 1 ? base->parallel.data : 1;
    return STATUS_OK;
}

/// Share of tiles that a layer keeps, drawn from a stream of its own.
static double draw_kept(const sparse_state *sparse, int block, rng *random)
{
    if (sparse->given != NULL) return sparse->given[sparse->given_count == 1 ? 0 : block];
    int tokens[MODEL_HASH_BUCKETS_MAX];
    const double *popularity = sparse->popularity + (size_t)block * MODEL_HASH_POPULARITIES;
    model_hash_draw(random, popularity, sparse->buckets, sparse->sequence_length, tokens);
    return model_hash_kept_share(tokens, sparse->buckets, sparse->sequence_length, sparse->tile);
}

static void set_cell(sparse_state *sparse, size_t cell, double kept)
{
    sparse->kept[cell] = kept;
    for (int pass = 0; pass < MODEL_PASS_BACKWARD_WEIGHT; pass++) {
        const double least = sparse->least_kept[pass];
        sparse->load->part[pass][MODEL_PART_ATTENTION][cell] =
            sparse->kernel_ratio[pass] * (kept > least ? kept : least);
    }
}

static status sparse_load_at(void *state, model_load_model load_model, int iteration, int replica,
                             bool *changed, error_message *err)
{
    (void)load_model;
    (void)err;
    sparse_state *sparse = state;
    for (int layer = sparse->of.first; layer < sparse->end; layer++) {
        const int block = layer - sparse->of.first;
        rng random = model_case_stream(sparse->of.seed, STREAM_HASH, block, iteration, replica);
        for (int column = 0; column < sparse->column_count; column++) {
            const size_t cell = (size_t)layer * (size_t)sparse->column_count + (size_t)column;
            set_cell(sparse, cell, draw_kept(sparse, block, &random));
        }
    }
    *changed = iteration == 0 || sparse->given == NULL;
    return STATUS_OK;
}

const model_dynamism_case model_dynamism_sparse_attention = {
    .name = "sparse-attention",
    .needs_shares = true,
    .state_bytes = sizeof(sparse_state),
    .open = sparse_open,
    .load_at = sparse_load_at,
};
