/// layer_collectives: each collective worked out by hand over links of one byte per ns.
#include "models/cost/layer_work.h"
#include "tests/test.h"

static const bool moe[2] = {true, true};
static const bool dense[2] = {false, false};

/// 16 wide, 4 heads of 4, 2 of them for keys and values, 8 experts of which a token meets 2.
static model_config small(const bool *is_moe)
{
    return (model_config){
        .layer_count = 2,
        .hidden_size = 16,
        .head_count = 4,
        .kv_head_count = 2,
        .query_key_dim = 4,
        .value_dim = 4,
        .ffn_size = 32,
        .expert_count = is_moe[0] ? 8 : 0,
        .expert_top_k = is_moe[0] ? 2 : 0,
        .expert_ffn_size = is_moe[0] ? 32 : 0,
        .vocabulary_size = 100,
        .is_moe = is_moe,
    };
}

/// No latency within a node of 8, 1000 ns between nodes.
static const model_hardware hardware = {
    .gpus_per_node = 8,
    .intra_node = {0, 1000000000},
    .inter_node = {1000, 1000000000},
};

/// 64 tokens: a vector of 16 for each is 2048 bytes.
static model_shape shape_with(model_parallel parallel)
{
    return (model_shape){.sequence_length = 32,
                         .microbatch_size = 2,
                         .dtype = MODEL_DTYPE_BFLOAT16,
                         .parallel = parallel};
}

static model_collectives of_layer(const model_config *config, model_parallel parallel,
                                  model_pass pass, int64_t attention_ns)
{
    const model_shape shape = shape_with(parallel);
    const model_groups groups = model_parallel_groups(&parallel, &hardware);
    return model_layer_collectives(config, &shape, &groups, 0, pass, attention_ns);
}

TEST(tensor_ranks_sum_twice_in_f_and_twice_in_b)
{
    const model_config config = small(dense);
    const model_parallel parallel = {.tensor = 4};

    // An all-reduce is 6 steps of 2048 / 4 bytes.
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).tensor_ns, 2 * 6 * 512);
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_BACKWARD_INPUT, 0).tensor_ns,
                     2 * 6 * 512);
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_BACKWARD_WEIGHT, 0).tensor_ns, 0);
}

TEST(routed_rows_are_gathered_k_times_under_sequence_parallelism)
{
    model_config config = small(moe);
    model_parallel parallel = {.tensor = 4, .data = 2, .expert = 2};

    // Without: one all-reduce for attention, one for what experts make of a token together.
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).tensor_ns, 2 * 6 * 512);
    parallel.sequence = true;
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).tensor_ns,
                     (1 + 2) * 6 * 512);
    config.shared_ffn_size = 32;
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).tensor_ns,
                     (1 + 2 + 1) * 6 * 512);
}

TEST(latent_attention_gathers_what_it_has_compressed)
{
    model_config config = small(dense);
    config.kv_rank = 6;
    config.rope_dim = 2;
    model_parallel parallel = {.tensor = 4, .sequence = true};

    // F gathers 16 + 6 + 2 numbers per token, 24 / 16 of 2048 bytes, and scatters 16; the MLP is as
    // ever.
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).tensor_ns,
                     3 * 768 + 3 * 512 + 6 * 512);
    config.query_rank = 4;
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).tensor_ns,
                     3 * 384 + 3 * 512 + 6 * 512);
    // Without sequence parallelism B sums that width.
    parallel.sequence = false;
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_BACKWARD_INPUT, 0).tensor_ns,
                     6 * 384 + 6 * 512);
}

TEST(tokens_go_to_their_experts_and_back)
{
    const model_config config = small(moe);
    model_parallel parallel = {.data = 4, .expert = 4, .expert_deduplication = 1};

    // 64 tokens to 2 experts each, which stand on 4 (1 - (3/4)^2) = 1.75 ranks, three quarters of
    // them others: 1.3125 times 2048 ns.
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).expert_ns, 2 * 2688);
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).last_expert_ns, 2688);
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).last_tensor_ns, 0);
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_BACKWARD_INPUT, 0).expert_ns, 2 * 2688);
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_BACKWARD_WEIGHT, 0).expert_ns, 0);
    // An all-to-all sends 2 copies, one after the other to the same rank, too.
    parallel.expert_deduplication = 0;
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).expert_ns, 2 * 3072);
    parallel.expert_deduplication = 1;
    // With tensor and sequence parallelism every rank sends its own tokens: half of them each. The
    // group now stands on two nodes.
    parallel.tensor = 4;
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).expert_ns,
                     2 * (1000 + 1536)); // three quarters leave the node, once each
    parallel.sequence = true;
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).expert_ns,
                     2 * (1000 + 384));
    const model_config none = small(dense);
    assert_int_equal(of_layer(&none, (model_parallel){.data = 4}, MODEL_PASS_FORWARD, 0).expert_ns,
                     0);
    // Rows of a quarter of the width; B needs them back, to expand them.
    model_config latent = config;
    latent.expert_latent_size = 4;
    parallel = (model_parallel){.data = 4, .expert = 4, .expert_deduplication = 1};
    assert_int_equal(of_layer(&latent, parallel, MODEL_PASS_FORWARD, 0).expert_ns, 2 * 2688 / 4);
    assert_int_equal(of_layer(&latent, parallel, MODEL_PASS_FORWARD, 0).last_expert_ns, 0);
}

/// Where kernels know the nodes F sends 8 bits out; what comes back is summed, and stays wide.
TEST(eight_bits_go_out_to_experts_in_groups)
{
    model_config config = small(moe);
    const model_parallel parallel = {.data = 4, .expert = 4, .expert_deduplication = 1};
    const model_groups groups = model_parallel_groups(&parallel, &hardware);
    model_shape shape = shape_with(parallel);
    shape.dtype = MODEL_DTYPE_FLOAT8;
    for (int group_count = 1; group_count <= 4; group_count += 3) {
        config.expert_group_count = config.expert_group_top_k = group_count;
        const int64_t out = group_count > 1 ? 2688 / 2 : 2688;
        const model_pass backward = MODEL_PASS_BACKWARD_INPUT;
        assert_int_equal(
            model_layer_collectives(&config, &shape, &groups, 0, MODEL_PASS_FORWARD, 0).expert_ns,
            out + 2688);
        assert_int_equal(
            model_layer_collectives(&config, &shape, &groups, 0, backward, 0).expert_ns, 2 * 2688);
    }
}

TEST(keys_and_values_travel_beside_the_attention)
{
    const model_config config = small(dense);
    const model_parallel parallel = {.context = 4};

    // 16 tokens of 2 heads of 8 numbers: 512 bytes a step, twice that in B, 3 steps.
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 0).context_ns, 3 * 512);
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_BACKWARD_INPUT, 0).context_ns,
                     3 * 1024);
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_BACKWARD_WEIGHT, 0).context_ns, 0);
    // Each step hides behind a quarter of the core.
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 400).context_ns, 3 * 412);
    assert_int_equal(of_layer(&config, parallel, MODEL_PASS_FORWARD, 2048).context_ns, 0);
}

TEST(embedding_and_head_are_summed_over_the_vocabulary)
{
    const model_config config = small(dense);
    model_shape shape = shape_with((model_parallel){.tensor = 4});
    const model_groups groups = model_parallel_groups(&shape.parallel, &hardware);
    const int64_t sum_ns = 6 * 512;
    const int64_t statistics_ns = 3 * 6 * 64; // 64 tokens of 4 bytes, three times

    assert_int_equal(
        model_embedding_collectives(&config, &shape, &groups, MODEL_PASS_FORWARD).tensor_ns,
        sum_ns);
    assert_int_equal(
        model_embedding_collectives(&config, &shape, &groups, MODEL_PASS_BACKWARD_INPUT).tensor_ns,
        0);
    assert_int_equal(model_head_collectives(&config, &shape, &groups, MODEL_PASS_FORWARD).tensor_ns,
                     statistics_ns);
    assert_int_equal(
        model_head_collectives(&config, &shape, &groups, MODEL_PASS_BACKWARD_INPUT).tensor_ns,
        sum_ns);
    shape.parallel.sequence = true;
    assert_int_equal(
        model_embedding_collectives(&config, &shape, &groups, MODEL_PASS_FORWARD).tensor_ns,
        sum_ns / 2);
    assert_int_equal(
        model_embedding_collectives(&config, &shape, &groups, MODEL_PASS_BACKWARD_INPUT).tensor_ns,
        sum_ns / 2);
    assert_int_equal(model_head_collectives(&config, &shape, &groups, MODEL_PASS_FORWARD).tensor_ns,
                     statistics_ns + sum_ns / 2);
    assert_int_equal(
        model_head_collectives(&config, &shape, &groups, MODEL_PASS_BACKWARD_INPUT).tensor_ns,
        sum_ns / 2);
    assert_int_equal(
        model_head_collectives(&config, &shape, &groups, MODEL_PASS_BACKWARD_WEIGHT).tensor_ns, 0);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
