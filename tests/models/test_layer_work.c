/// layer_work: counts against formulas worked out by hand and against published figures, and
/// properties over random models.
#include "base/rng.h"
#include "models/cost/config.h"
#include "models/cost/layer_work.h"
#include "tests/test.h"

#include <string.h>

/// FLOP of a transformer layer in one pass.
static int64_t layer_flop(const model_config *config, const model_shape *shape, int layer,
                          model_pass pass)
{
    const model_layer_work work = model_layer_work_of(config, shape, layer, pass);
    return model_work_flop(&work);
}

static const bool all_moe[64] = {true, true};
static const bool no_moe[64] = {false};

/// GPT-2 of any size, dropout everywhere.
static model_config gpt(int hidden, int heads)
{
    return (model_config){
        .model_type = "gpt2",
        .layer_count = 2,
        .hidden_size = hidden,
        .head_count = heads,
        .kv_head_count = heads,
        .query_key_dim = hidden / heads,
        .value_dim = hidden / heads,
        .ffn_size = 4 * hidden,
        .vocabulary_size = 50257,
        .position_count = 1 << 20,
        .has_learned_positions = true,
        .has_tied_embeddings = true,
        .has_query_key_value_bias = true,
        .has_attention_output_bias = true,
        .has_mlp_bias = true,
        .has_embedding_dropout = true,
        .has_attention_dropout = true,
        .has_residual_dropout = true,
        .norm = MODEL_NORM_LAYER,
        .is_moe = no_moe,
    };
}

/// Llama-3-8B, and with experts Mixtral-8x7B.
static model_config llama(int experts)
{
    return (model_config){
        .model_type = "llama",
        .layer_count = 2,
        .hidden_size = 4096,
        .head_count = 32,
        .kv_head_count = 8,
        .query_key_dim = 128,
        .value_dim = 128,
        .ffn_size = 14336,
        .expert_count = experts,
        .expert_top_k = experts > 0 ? 2 : 0,
        .expert_ffn_size = experts > 0 ? 14336 : 0,
        .router_weight_count = (int64_t)experts * 4096,
        .vocabulary_size = 128256,
        .has_gated_mlp = true,
        .norm = MODEL_NORM_RMS,
        .is_moe = experts > 0 ? all_moe : no_moe,
    };
}

static model_shape shape_of(int sequence_length, int microbatch_size, model_attention attention)
{
    return (model_shape){.sequence_length = sequence_length,
                         .microbatch_size = microbatch_size,
                         .dtype = MODEL_DTYPE_BFLOAT16,
                         .attention = attention};
}

TEST(gpt_layers_follow_the_zero_bubble_formulas)
{
    const uint64_t seed = 11;
    rng random = rng_init(seed, 0);
    for (int round = 0; round < 200; round++) {
        const int heads = 1 << rng_between(&random, 0, 6);
        const int64_t h = heads * rng_between(&random, 1, 200);
        const int64_t a = heads;
        const int64_t s = rng_between(&random, 1, 5000);
        const int64_t b = rng_between(&random, 1, 9);
        const model_config config = gpt((int)h, heads);
        const model_shape unfused = shape_of((int)s, (int)b, MODEL_ATTENTION_UNFUSED);
        const model_shape flash = shape_of((int)s, (int)b, MODEL_ATTENTION_FLASH);

        assert_int_equal(layer_flop(&config, &unfused, 1, MODEL_PASS_FORWARD),
                         s * b * h * (24 * h + 4 * s));
        assert_int_equal(layer_flop(&config, &unfused, 1, MODEL_PASS_BACKWARD_INPUT),
                         s * b * h * (24 * h + 8 * s));
        assert_int_equal(layer_flop(&config, &unfused, 1, MODEL_PASS_BACKWARD_WEIGHT),
                         24 * s * b * h * h);
        assert_int_equal(model_layer_memory(&config, &unfused, 1).activation_bytes,
                         s * b * (34 * h + 5 * a * s));
        assert_int_equal(model_layer_memory(&config, &unfused, 1).gradient_bytes, 32 * s * b * h);

        // Flash: half of the pairs, and 5 products instead of 4 in backward.
        assert_int_equal(layer_flop(&config, &flash, 1, MODEL_PASS_FORWARD),
                         s * b * h * (24 * h + 2 * s));
        assert_int_equal(layer_flop(&config, &flash, 1, MODEL_PASS_BACKWARD_INPUT),
                         s * b * h * (24 * h + 5 * s));
        assert_int_equal(model_layer_memory(&config, &flash, 1).activation_bytes, 34 * s * b * h);
        assert_int_equal(model_layer_memory(&config, &flash, 1).gradient_bytes, 32 * s * b * h);
    }
}

TEST(experts_that_no_token_meets_are_not_read)
{
    const model_config config = llama(8);
    const model_shape one_token = shape_of(1, 1, MODEL_ATTENTION_FLASH);
    const model_layer_work work = model_layer_work_of(&config, &one_token, 0, MODEL_PASS_FORWARD);

    // Two of eight experts, the router, and in and out of every product.
    const int64_t h = 4096;
    const int64_t f = 14336;
    const int64_t weights = 2 * 3 * h * f + 8 * h;
    const int64_t sides = (h + 8) + 2 * (h + 2 * f) + 2 * (f + h);
    assert_int_equal(work.mlp.bytes, 2 * (weights + sides));
}

TEST(latent_attention_multiplies_by_all_its_matrices)
{
    // DeepSeek-V2-Lite.
    const model_config config = {
        .model_type = "deepseek_v2",
        .layer_count = 1,
        .hidden_size = 2048,
        .head_count = 16,
        .kv_head_count = 16,
        .query_key_dim = 192,
        .value_dim = 128,
        .kv_rank = 512,
        .rope_dim = 64,
        .ffn_size = 10944,
        .has_gated_mlp = true,
        .is_moe = no_moe,
    };
    const model_shape shape = shape_of(100, 3, MODEL_ATTENTION_FLASH);
    const model_layer_work forward = model_layer_work_of(&config, &shape, 0, MODEL_PASS_FORWARD);
    const model_layer_work backward =
        model_layer_work_of(&config, &shape, 0, MODEL_PASS_BACKWARD_INPUT);

    assert_int_equal(forward.projection.flop, 2 * 300 * model_mixer_weight_count(&config));
    assert_int_equal(forward.attention.flop, 100 * 100 * 16 * 3 * (192 + 128));
    assert_int_equal(backward.attention.flop, 100 * 100 * 16 * 3 * (3 * 192 + 2 * 128));
}

TEST(a_window_hides_pairs_from_flash_attention_only)
{
    model_config config = gpt(64, 4);
    config.sliding_window = 8;
    const model_shape flash = shape_of(16, 1, MODEL_ATTENTION_FLASH);
    const model_shape unfused = shape_of(16, 1, MODEL_ATTENTION_UNFUSED);
    const model_shape shorter = shape_of(6, 1, MODEL_ATTENTION_FLASH);

    // w (2s - w) = 8 * 24 of the 16 * 16 doubled pairs.
    assert_int_equal(model_layer_work_of(&config, &flash, 0, MODEL_PASS_FORWARD).attention.flop,
                     8 * 24 * 4 * (16 + 16));
    assert_int_equal(model_layer_work_of(&config, &unfused, 0, MODEL_PASS_FORWARD).attention.flop,
                     16 * 16 * 4 * 2 * (16 + 16));
    assert_int_equal(model_layer_work_of(&config, &shorter, 0, MODEL_PASS_FORWARD).attention.flop,
                     6 * 6 * 4 * (16 + 16));
}

TEST(bytes_of_a_small_layer_are_those_counted_by_hand)
{
    const model_config config = gpt(8, 2);
    const model_shape shape = shape_of(4, 1, MODEL_ATTENTION_UNFUSED);
    const model_layer_work forward = model_layer_work_of(&config, &shape, 0, MODEL_PASS_FORWARD);
    const model_layer_work input =
        model_layer_work_of(&config, &shape, 0, MODEL_PASS_BACKWARD_INPUT);
    const model_layer_work weight =
        model_layer_work_of(&config, &shape, 0, MODEL_PASS_BACKWARD_WEIGHT);

    // 4 tokens: 8 -> 24 and 8 -> 8; 8 -> 32 and 32 -> 8; 2 bytes each, 8 per weight in W.
    assert_int_equal(forward.projection.bytes, 4 * (32 + 16) * 2 + (192 + 64) * 2);
    assert_int_equal(input.projection.bytes, forward.projection.bytes);
    assert_int_equal(weight.projection.bytes, 4 * (32 + 16) * 2 + (192 + 64) * 8);
    assert_int_equal(forward.mlp.bytes, 4 * (40 + 40) * 2 + 512 * 2);
    // 2 heads of 4 x 4 scores: 6 accesses of 2 bytes and a mask, then 9; 32 numbers per token.
    assert_int_equal(forward.attention.bytes, 32 * (6 * 2 + 1) + 4 * 32 * 2);
    assert_int_equal(input.attention.bytes, 32 * (9 * 2 + 1) + 4 * 32 * 2 * 2);
    // Norms 4h, residuals 6h, activation 2f, both masks 2h; backward 6h, 6h + 4h, 3f, 2h.
    assert_int_equal(forward.elementwise.bytes, 4 * ((4 * 8 + 6 * 8 + 2 * 32) * 2 + 16));
    assert_int_equal(input.elementwise.bytes, 4 * ((6 * 8 + 10 * 8 + 3 * 32) * 2 + 16));
    assert_int_equal(weight.elementwise.bytes, 0);
    assert_int_equal(weight.attention.bytes + weight.attention.flop, 0);
}

TEST(a_small_layer_with_experts_is_counted_by_hand)
{
    model_config config = llama(4);
    config.hidden_size = 8;
    config.head_count = 2;
    config.kv_head_count = 1;
    config.query_key_dim = 4;
    config.value_dim = 4;
    config.expert_ffn_size = 6;
    config.shared_ffn_size = 10;
    const model_shape shape = shape_of(4, 1, MODEL_ATTENTION_FLASH);
    const model_layer_work forward = model_layer_work_of(&config, &shape, 0, MODEL_PASS_FORWARD);
    const model_layer_work input =
        model_layer_work_of(&config, &shape, 0, MODEL_PASS_BACKWARD_INPUT);
    const model_memory memory = model_layer_memory(&config, &shape, 0);

    // Activation of 2 * 6 + 10 = 22 numbers from 44. Norms 4h, residuals 6h, rotation of 8 + 4
    // numbers read and written, 44 + 22, to two experts and back 6h; backward norms 6h, 88 + 22,
    // and 2 * (12 + 6) once more for the gradient of the experts' weights.
    assert_int_equal(forward.elementwise.bytes, 4 * 2 * (4 * 8 + 6 * 8 + 2 * 12 + 66 + 6 * 8));
    assert_int_equal(input.elementwise.bytes, 4 * 2 * (6 * 8 + 6 * 8 + 2 * 12 + 110 + 36 + 6 * 8));
    // Inputs: two of attention, router, two expert rows, their 6 each, the shared 10; the shared
    // expert reads what the router has kept. Outputs: 16 + 8, 4, 2 * 12, 2 * 8, 20, 8.
    const int64_t inputs = 8 + 8 + 8 + 2 * 8 + 2 * 6 + 10;
    const int64_t outputs = 16 + 8 + 4 + 24 + 16 + 20 + 8;
    assert_int_equal(memory.gradient_bytes, 4 * 2 * (inputs + outputs));
    // And for B: queries, keys and values, inputs of both norms, of the activation, two rows.
    assert_int_equal(memory.activation_bytes, 4 * 2 * (inputs + 16 + 2 * 8 + 44 + 2 * 8));
}

/// 4 tokens of width 8 on one GPU, two experts of width 6 for each, 2 bytes a number.
static int64_t expert_bytes(bool has_bias, int expert, double deduplication, model_pass pass)
{
    model_config config = llama(4);
    config.hidden_size = 8;
    config.expert_ffn_size = 6;
    config.has_mlp_bias = has_bias;
    model_shape shape = shape_of(4, 1, MODEL_ATTENTION_FLASH);
    shape.parallel.data = expert;
    shape.parallel.expert = expert;
    shape.parallel.expert_deduplication = deduplication;
    return model_layer_work_of(&config, &shape, 0, pass).elementwise.bytes;
}

TEST(experts_with_biases_are_clamped_and_added_operator_by_operator)
{
    const int64_t forward = expert_bytes(true, 1, 0, MODEL_PASS_FORWARD) -
                            expert_bytes(false, 1, 0, MODEL_PASS_FORWARD);
    const int64_t backward = expert_bytes(true, 1, 0, MODEL_PASS_BACKWARD_INPUT) -
                             expert_bytes(false, 1, 0, MODEL_PASS_BACKWARD_INPUT);

    // Two rows a token; clamped and joined 4 * 12, weighed, added and joined 6 * 8; then 5 and 8.
    assert_int_equal(forward, 4 * 2 * 2 * (4 * 12 + 6 * 8));
    assert_int_equal(backward, 4 * 2 * 2 * (5 * 12 + 8 * 8));
}

TEST(biases_are_added_in_32_bits_where_a_token_is_sent_once)
{
    const int64_t none = expert_bytes(false, 2, 1, MODEL_PASS_FORWARD);
    const int64_t forward = expert_bytes(true, 2, 1, MODEL_PASS_FORWARD) - none;
    const int64_t backward = expert_bytes(true, 2, 1, MODEL_PASS_BACKWARD_INPUT) -
                             expert_bytes(false, 2, 1, MODEL_PASS_BACKWARD_INPUT);
    assert_int_equal(forward, 4 * 2 * 2 * (4 * 12 + (6 + 8) * 8));
    assert_int_equal(backward, 4 * 2 * 2 * (5 * 12 + (8 + 10) * 8));
}

TEST(biases_are_added_by_kernels_of_each_expert)
{
    model_config config = llama(4);
    const model_shape shape = shape_of(4, 1, MODEL_ATTENTION_FLASH);
    for (int pass = MODEL_PASS_FORWARD; pass <= MODEL_PASS_BACKWARD_INPUT; pass++) {
        const int added = 4 * (pass == MODEL_PASS_FORWARD ? 2 : 5);
        config.has_mlp_bias = false;
        const model_launches none =
            model_layer_work_of(&config, &shape, 0, (model_pass)pass).launches;
        config.has_mlp_bias = true;
        const model_launches biased =
            model_layer_work_of(&config, &shape, 0, (model_pass)pass).launches;
        assert_int_equal(biased.library_count, none.library_count + added);
        assert_int_equal(biased.kernel_count, none.kernel_count + added);
        assert_int_equal(biased.operator_count, none.operator_count);
    }
}

TEST(tokens_that_are_sent_once_are_sorted_where_they_arrive)
{
    const int64_t alone = expert_bytes(false, 1, 0, MODEL_PASS_FORWARD);

    // Sorted and summed 2 * 3 rows of 8; among two GPUs rows are sorted again there and back, 4
    // * 2.
    assert_int_equal(expert_bytes(false, 2, 0, MODEL_PASS_FORWARD) - alone, 4 * 2 * 4 * 2 * 8);
    // Sent once to 2 * (1 - 1/4) of two GPUs: copied from 1.5 rows to 2, and back.
    assert_int_equal(expert_bytes(false, 2, 1, MODEL_PASS_FORWARD) - alone,
                     4 * 2 * (2 * 7 / 2 - 2 * 3) * 8);
}

TEST(state_space_mixers_make_states_again_in_b)
{
    model_config config = llama(0);
    config.head_count = 0;
    config.mamba_head_count = 2;
    config.mamba_head_dim = 8;
    config.mamba_state_size = 4;
    config.mamba_group_count = 1;
    config.mamba_chunk_size = 16;
    const model_shape shape = shape_of(16, 1, MODEL_ATTENTION_FLASH);
    const model_work forward =
        model_layer_work_of(&config, &shape, 0, MODEL_PASS_FORWARD).attention;
    const model_work backward =
        model_layer_work_of(&config, &shape, 0, MODEL_PASS_BACKWARD_INPUT).attention;

    // Width 16, states 8: convolution 2 * 24, read again 24, states of 4 x 16 in a chunk of 16
    // tokens written and read in 32 bits.
    assert_int_equal(backward.bytes - 2 * forward.bytes, 16 * 2 * (48 + 24 + 16));
    assert_int_equal(backward.flop - 2 * forward.flop, 16 * 2 * 4 * 16);
}

TEST(bytes_of_embedding_and_head_are_those_counted_by_hand)
{
    model_config config = gpt(8, 2);
    config.vocabulary_size = 100;
    const model_shape shape = shape_of(4, 1, MODEL_ATTENTION_FLASH);

    // Two rows read, one vector written, a mask. Gradient read, two rows read and written, mask;
    // both tables zeroed, read, and added to a sum in 32 bits.
    const int64_t lookup =
        model_embedding_work(&config, &shape, MODEL_PASS_FORWARD).elementwise.bytes;
    const int64_t update =
        model_embedding_work(&config, &shape, MODEL_PASS_BACKWARD_WEIGHT).elementwise.bytes;
    assert_int_equal(lookup, 4 * (3 * 8 * 2 + 8));
    assert_int_equal(update,
                     4 * (8 * 2 + 2 * 8 * 4 + 8) + (100 + config.position_count) * 8 * (2 + 2 + 8));
    const model_layer_work none = model_embedding_work(&config, &shape, MODEL_PASS_BACKWARD_INPUT);
    assert_int_equal(none.elementwise.bytes + model_work_flop(&none), 0);

    const model_layer_work head = model_head_work(&config, &shape, MODEL_PASS_FORWARD);
    assert_int_equal(head.projection.bytes, 4 * (8 + 100) * 2 + 800 * 2);
    assert_int_equal(head.elementwise.bytes, 4 * (2 * 8 * 2 + 100 * 10));
    const model_memory memory = model_head_memory(&config, &shape);
    assert_int_equal(memory.activation_bytes, 4 * (2 * 8 * 2 + 100 * 4));
    assert_int_equal(memory.gradient_bytes, 4 * (8 + 100) * 2);
    model_shape eager = shape; // logits widened, log-softmax and the gradients of both
    eager.parallel.eager_loss = true;
    assert_int_equal(model_head_memory(&config, &eager).activation_bytes,
                     4 * (2 * 8 * 2 + 100 * 12));
    assert_int_equal(model_head_work(&config, &eager, MODEL_PASS_FORWARD).elementwise.bytes,
                     4 * (2 * 8 * 2 + 100 * 18));
    eager.parallel.tensor = 2; // half the vocabulary, once more
    assert_int_equal(model_head_memory(&config, &eager).activation_bytes,
                     4 * (2 * 8 * 2 + 50 * 16));
    const model_memory embedding = model_embedding_memory(&config, &shape);
    assert_int_equal(embedding.activation_bytes, 4 * (8 + 8));
    assert_int_equal(embedding.gradient_bytes, 4 * (8 + 8 + 16));
}

TEST(what_runs_operator_by_operator_keeps_more)
{
    const model_config config = llama(0);
    const int64_t tokens = 8;
    model_shape fused = shape_of((int)tokens, 1, MODEL_ATTENTION_FLASH);
    fused.parallel.tensor = 4;
    fused.parallel.sequence = true;
    model_shape eager = fused;
    eager.parallel.eager = eager.parallel.fused_norms = true;
    const int64_t own = tokens / 4;
    const int64_t inner = config.ffn_size / 4;

    // Both inputs that tensor ranks gather, whole; and what the gate made.
    assert_int_equal(model_layer_memory(&config, &eager, 0).activation_bytes -
                         model_layer_memory(&config, &fused, 0).activation_bytes,
                     2 * (2 * config.hidden_size * (tokens - own) + inner * tokens));
    assert_int_equal(model_head_memory(&config, &eager).activation_bytes -
                         model_head_memory(&config, &fused).activation_bytes,
                     2 * config.hidden_size * (tokens - own));
    const model_pass passes[] = {MODEL_PASS_FORWARD, MODEL_PASS_BACKWARD_INPUT};
    for (int pass = 0; pass < 2; pass++) {
        const model_layer_work one = model_layer_work_of(&config, &eager, 0, passes[pass]);
        const model_layer_work other = model_layer_work_of(&config, &fused, 0, passes[pass]);
        assert_int_equal(one.elementwise.bytes - other.elementwise.bytes,
                         2 * (pass + 2) * inner * tokens);
        assert_int_equal(one.launches.kernel_count - other.launches.kernel_count, 1);
        assert_int_equal(model_work_flop(&one), model_work_flop(&other));
    }
}

/// Bytes of a number that is normed: F widens (2 + 4), squares (8), takes the mean (4), scales (8),
/// narrows (6) and weighs (4) it; B of the weight 12, of narrowing 6, of scaling 24, of the mean 4,
/// of the square 28, of their sum 12, of widening 6. Rotated: 6 + 8 + 6, each way.
TEST(pytorchs_norms_and_rotation_are_many_operators)
{
    const model_config config = llama(0);
    model_shape some = shape_of(8, 1, MODEL_ATTENTION_FLASH);
    some.parallel.eager = some.parallel.fused_norms = true;
    model_shape all = some;
    all.parallel.fused_norms = false;
    const int64_t normed = INT64_C(2) * 8 * 4096; // two norms
    const int64_t rotated = 8 * (4096 + 1024);
    const int64_t added[] = {(36 - 4) * normed + (20 - 4) * rotated,
                             (92 - 6) * normed + (20 - 4) * rotated};
    const model_pass passes[] = {MODEL_PASS_FORWARD, MODEL_PASS_BACKWARD_INPUT};
    for (int pass = 0; pass < 2; pass++) {
        const model_layer_work one = model_layer_work_of(&config, &all, 0, passes[pass]);
        const model_layer_work other = model_layer_work_of(&config, &some, 0, passes[pass]);
        assert_int_equal(one.elementwise.bytes - other.elementwise.bytes, added[pass]);
        assert_int_equal(one.launches.kernel_count - other.launches.kernel_count, 19 + 16 * pass);
    }
    // 32 bits of what was widened and 16 of what was scaled, where the input was kept.
    assert_int_equal(model_layer_memory(&config, &all, 0).activation_bytes -
                         model_layer_memory(&config, &some, 0).activation_bytes,
                     4 * normed);
    // Of 32 bits nothing is widened; LayerNorm is one operator.
    some.dtype = all.dtype = MODEL_DTYPE_FLOAT32;
    assert_int_equal(model_layer_work_of(&config, &all, 0, passes[0]).elementwise.bytes -
                         model_layer_work_of(&config, &some, 0, passes[0]).elementwise.bytes,
                     (28 - 8) * normed);
    const model_config plain = gpt(4096, 32);
    const model_layer_work one = model_layer_work_of(&plain, &all, 0, passes[0]);
    const model_layer_work other = model_layer_work_of(&plain, &some, 0, passes[0]);
    assert_int_equal(one.elementwise.bytes, other.elementwise.bytes);
    assert_int_equal(one.launches.kernel_count, other.launches.kernel_count);
    assert_int_equal(one.launches.library_count, other.launches.library_count);
}

TEST(absurd_sizes_saturate)
{
    const model_config config = llama(8);
    const model_shape shape = shape_of(1 << 30, 1 << 30, MODEL_ATTENTION_UNFUSED);

    assert_true(layer_flop(&config, &shape, 0, MODEL_PASS_FORWARD) == INT64_MAX);
    assert_true(model_layer_memory(&config, &shape, 0).activation_bytes == INT64_MAX);
    assert_true(model_message_bytes(&config, &shape) == INT64_MAX);
}

static int64_t bytes_of(const model_layer_work *work)
{
    return work->projection.bytes + work->attention.bytes + work->mlp.bytes +
           work->elementwise.bytes;
}

static void assert_not_less(const model_config *small, const model_shape *small_shape,
                            const model_config *large, const model_shape *large_shape)
{
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        const model_layer_work less = model_layer_work_of(small, small_shape, 0, (model_pass)pass);
        const model_layer_work more = model_layer_work_of(large, large_shape, 0, (model_pass)pass);
        assert_true(model_work_flop(&less) <= model_work_flop(&more));
        assert_true(bytes_of(&less) <= bytes_of(&more));
    }
    const model_memory less = model_layer_memory(small, small_shape, 0);
    const model_memory more = model_layer_memory(large, large_shape, 0);
    assert_true(less.activation_bytes <= more.activation_bytes);
    assert_true(less.gradient_bytes <= more.gradient_bytes);
}

TEST(more_of_anything_never_costs_less)
{
    const uint64_t seed = 5;
    rng random = rng_init(seed, 0);
    for (int round = 0; round < 300; round++) {
        model_config config = llama(round % 2 == 0 ? 0 : (int)rng_between(&random, 3, 64));
        config.ffn_size = (int)rng_between(&random, 1, 20000);
        config.shared_ffn_size = (int)rng_between(&random, 0, 1) * 512;
        config.sliding_window = (int)rng_between(&random, 0, 2) * 500;
        const int length = (int)rng_between(&random, 1, 3000);
        const int size = (int)rng_between(&random, 1, 8);
        const model_shape shape =
            shape_of(length, size, (model_attention)rng_between(&random, 0, 1));
        model_shape longer = shape;
        longer.sequence_length++;
        model_shape wider = shape;
        wider.microbatch_size++;
        model_config grown = config;
        grown.ffn_size++;
        grown.expert_ffn_size++;
        model_config more_heads = config;
        more_heads.head_count += more_heads.kv_head_count;
        model_config more_experts = config;
        if (config.expert_count > 0) more_experts.expert_top_k++;

        assert_not_less(&config, &shape, &config, &longer);
        assert_not_less(&config, &shape, &config, &wider);
        assert_not_less(&config, &shape, &grown, &shape);
        assert_not_less(&config, &shape, &more_heads, &shape);
        assert_not_less(&config, &shape, &more_experts, &shape);
    }
}

/// A transformer layer's activations on one of eight tensor ranks: Korthikanti et al., arXiv
/// 2205.05198, tables 2 and 3, s = 2048.
TEST(activations_are_those_of_korthikanti)
{
    static const struct {
        int heads;
        int hidden;
        int microbatch_size;
    } models[] = {{64, 6144, 4}, {96, 12288, 1}, {128, 20480, 1}, {160, 25600, 1}};
    for (size_t row = 0; row < sizeof models / sizeof models[0]; row++) {
        const int64_t h = models[row].hidden;
        const int64_t sbh = INT64_C(2048) * models[row].microbatch_size * h;
        const int64_t scores =
            5 * INT64_C(2048) * 2048 * models[row].heads * models[row].microbatch_size;
        const model_config config = gpt((int)h, models[row].heads);
        model_shape shape = shape_of(2048, models[row].microbatch_size, MODEL_ATTENTION_UNFUSED);
        shape.parallel.tensor = 8;

        const int64_t tensor = model_layer_memory(&config, &shape, 0).activation_bytes;
        shape.parallel.sequence = true;
        const int64_t sequence = model_layer_memory(&config, &shape, 0).activation_bytes;
        shape.parallel.recompute = MODEL_RECOMPUTE_SELECTIVE;
        const int64_t both = model_layer_memory(&config, &shape, 0).activation_bytes;
        shape.parallel.sequence = false;
        const int64_t selective = model_layer_memory(&config, &shape, 0).activation_bytes;
        shape.parallel.recompute = MODEL_RECOMPUTE_FULL;
        const int64_t full = model_layer_memory(&config, &shape, 0).activation_bytes;

        assert_int_equal(tensor, 10 * sbh + 24 * sbh / 8 + scores / 8);
        assert_int_equal(sequence, 34 * sbh / 8 + scores / 8);
        assert_int_equal(selective, 10 * sbh + 24 * sbh / 8);
        assert_int_equal(both, 34 * sbh / 8);
        assert_int_equal(full, 2 * sbh);
        // Section 6.1: together they leave a fifth, full recomputation a tenth.
        assert_close((double)both / (double)tensor, 0.2, 0.2);
        assert_close((double)full / (double)tensor, 0.1, 0.25);
    }
}

TEST(norms_and_residuals_are_divided_by_sequence_parallelism_alone)
{
    const model_config config = gpt(1024, 16);
    const model_shape whole = shape_of(2048, 2, MODEL_ATTENTION_FLASH);
    model_shape tensor = whole;
    tensor.parallel.tensor = 4;
    model_shape sequence = tensor;
    sequence.parallel.sequence = true;

    // 38 h bytes per token in F, of which 16 h are of the activation function.
    const int64_t th = INT64_C(4096) * 1024;
    model_layer_work work = model_layer_work_of(&config, &tensor, 0, MODEL_PASS_FORWARD);
    assert_int_equal(work.elementwise.bytes, (22 + 16 / 4) * th);
    work = model_layer_work_of(&config, &sequence, 0, MODEL_PASS_FORWARD);
    assert_int_equal(work.elementwise.bytes, (22 + 16) * th / 4);
    assert_int_equal(model_message_bytes(&config, &tensor), 2 * th);
    assert_int_equal(model_message_bytes(&config, &sequence), 2 * th / 4);
}

TEST(folded_experts_compute_as_much_on_fewer_wider_matrices)
{
    const model_config config = llama(8);
    model_shape divided = shape_of(4096, 1, MODEL_ATTENTION_FLASH);
    divided.parallel = (model_parallel){.data = 8, .tensor = 2, .expert = 4, .sequence = true};
    model_shape folded = divided;
    folded.parallel.expert = 8;
    folded.parallel.expert_tensor = 1;

    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        assert_int_equal(layer_flop(&config, &folded, 0, (model_pass)pass),
                         layer_flop(&config, &divided, 0, (model_pass)pass));
    }
    // Half of two experts, or one whole.
    const model_config slice = model_gpu_slice(&config, &folded.parallel);
    const model_config half = model_gpu_slice(&config, &divided.parallel);
    assert_int_equal(slice.expert_count, 1);
    assert_int_equal(slice.expert_ffn_size, 14336);
    assert_int_equal(model_layer_parameters(&slice, 0), model_layer_parameters(&half, 0));
    assert_int_equal(model_shape_routed_tokens(&divided), 4096);
    assert_int_equal(model_shape_routed_tokens(&folded), 2048);
    // Rows into experts are kept for half of the tokens: k h numbers of 2 bytes less for the rest.
    assert_int_equal(model_layer_memory(&config, &divided, 0).activation_bytes -
                         model_layer_memory(&config, &folded, 0).activation_bytes,
                     INT64_C(2048) * 2 * 4096 * 2);
}

TEST(eight_bits_halve_the_operands_of_products_only)
{
    const model_config config = gpt(1024, 16);
    const model_shape wide = shape_of(1024, 1, MODEL_ATTENTION_FLASH);
    model_shape narrow = wide;
    narrow.dtype = MODEL_DTYPE_FLOAT8;
    const int64_t th = INT64_C(1024) * 1024;

    const model_layer_work before = model_layer_work_of(&config, &wide, 0, MODEL_PASS_FORWARD);
    const model_layer_work after = model_layer_work_of(&config, &narrow, 0, MODEL_PASS_FORWARD);
    // Inputs of 1 + 1 + 1 + 4 h, weights 12 h^2, each a byte less.
    assert_int_equal(before.mlp.bytes + before.projection.bytes - after.mlp.bytes -
                         after.projection.bytes,
                     7 * th + 12 * th);
    assert_int_equal(after.attention.bytes, before.attention.bytes);
    // Inputs are cast: read in two bytes, for the largest and for the cast, written twice in one.
    assert_int_equal(after.elementwise.bytes - before.elementwise.bytes, 7 * th * (4 + 2));
    assert_int_equal(model_layer_memory(&config, &wide, 0).activation_bytes -
                         model_layer_memory(&config, &narrow, 0).activation_bytes,
                     7 * th);
    assert_int_equal(model_message_bytes(&config, &narrow), 2 * th);
    assert_int_equal(model_head_work(&config, &narrow, MODEL_PASS_FORWARD).projection.bytes,
                     model_head_work(&config, &wide, MODEL_PASS_FORWARD).projection.bytes);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
