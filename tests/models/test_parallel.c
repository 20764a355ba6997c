/// parallel: names, what does not divide, and who stands beside whom on nodes of eight GPUs; memory
/// of sharded optimizers as published, and what replicas exchange when.
#include "models/cost/parallel.h"
#include "tests/test.h"

#include <string.h>

static const bool moe[2] = {true, true};

/// Mixtral-8x7B in two layers.
static model_config mixtral(void)
{
    return (model_config){
        .layer_count = 2,
        .hidden_size = 4096,
        .head_count = 32,
        .kv_head_count = 8,
        .ffn_size = 14336,
        .expert_count = 8,
        .expert_top_k = 2,
        .expert_ffn_size = 14336,
        .is_moe = moe,
    };
}

static const model_hardware hardware = {
    .memory_bytes = 80000000000,
    .gpus_per_node = 8,
    .intra_node = {1, 100},
    .inter_node = {2, 10},
};

TEST(nothing_said_is_one_gpu_a_stage)
{
    const model_config config = mixtral();
    const model_parallel parallel = {0};

    assert_ok(model_parallel_check(&parallel, &config, NULL));
    assert_int_equal(model_parallel_gpu_count(&parallel, 24), 24);
    const model_groups groups = model_parallel_groups(&parallel, &hardware);
    assert_int_equal(groups.tensor.rank_count, 1);
    assert_int_equal(groups.context.rank_count, 1);
    assert_int_equal(groups.expert.rank_count, 1);
    assert_int_equal(groups.replicas.rank_count, 1);
    assert_int_equal(groups.expert_replicas.rank_count, 1);
    const bal_machine machine = model_parallel_machine(&parallel, &hardware, 24);
    assert_int_equal(machine.rank_count, 24);
    assert_int_equal(machine.ranks_per_node, 8);
    assert_int_equal(machine.rank_memory_bytes, 80000000000);
}

static void assert_refused(model_parallel parallel, const model_config *config, const char *message)
{
    assert_fails(model_parallel_check(&parallel, config, &why), STATUS_INVALID, message);
}

TEST(degrees_that_do_not_divide_the_model_are_refused)
{
    const model_config config = mixtral();
    model_config dense = mixtral();
    dense.expert_count = 0;
    model_config wide = mixtral();
    wide.head_count = wide.kv_head_count = 1024;
    model_config shared = mixtral();
    shared.shared_ffn_size = 100;

    assert_refused((model_parallel){.data = -1}, &config, "data -1 is outside [1, 65536]");
    assert_refused((model_parallel){.context = 65537}, &config,
                   "context 65537 is outside [1, 65536]");
    assert_refused((model_parallel){.data = 65536, .context = 512}, &config,
                   "data 65536 x tensor 1 x context 512 are 33554432 GPUs a stage, at most "
                   "16777216 are modelled");
    assert_refused((model_parallel){.tensor = 3}, &config,
                   "tensor 3 does not divide the 32 attention heads");
    wide.kv_head_count = 6;
    assert_refused((model_parallel){.tensor = 4}, &wide,
                   "tensor 4 does not divide the 6 key-value heads");
    wide.kv_head_count = 1024;
    wide.ffn_size = 1000;
    assert_refused((model_parallel){.tensor = 16}, &wide,
                   "tensor 16 does not divide the 1000 units of an MLP");
    wide.ffn_size = 1024;
    wide.expert_ffn_size = 1000;
    assert_refused((model_parallel){.tensor = 16}, &wide,
                   "tensor 16 does not divide the 1000 units of an expert");
    assert_refused((model_parallel){.tensor = 8}, &shared,
                   "tensor 8 does not divide the 100 units of the shared expert");
    assert_refused((model_parallel){.data = 2, .expert = 2}, &dense,
                   "expert 2: the model has no experts");
    assert_refused((model_parallel){.data = 3, .expert = 3}, &config,
                   "expert 3 does not divide the 8 experts");
    assert_refused((model_parallel){.data = 6, .context = 2, .expert = 8}, &config,
                   "expert 8 does not divide data 6 x context 2 = 12");
    assert_refused((model_parallel){.data = 2, .context = 6, .expert = 4}, &config,
                   "expert 4 and context 6: neither divides the other");
    assert_refused((model_parallel){.expert_tensor = -1}, &config,
                   "expert_tensor -1 is outside [1, 65536]");
    assert_refused((model_parallel){.tensor = 4, .expert_tensor = 2}, &config,
                   "expert_tensor 2 differs from tensor 4, which needs sequence parallelism: "
                   "without it all tensor ranks have the same tokens");
    assert_refused((model_parallel){.tensor = 2, .expert_tensor = 4, .sequence = true}, &config,
                   "expert_tensor 4 does not divide the 2 GPUs of tensor");
    assert_refused((model_parallel){.tensor = 4, .expert_tensor = 3, .sequence = true}, &config,
                   "expert_tensor 3 does not divide the 14336 units of an expert");
    dense.expert_ffn_size = 0;
    assert_refused((model_parallel){.tensor = 4, .expert_tensor = 1, .sequence = true}, &dense,
                   "expert_tensor 1: the model has no experts");
    assert_refused((model_parallel){.tensor = 2, .expert_tensor = 1, .expert = 4, .sequence = true},
                   &config,
                   "expert 4 does not divide data 1 x context 1 x tensor 2 / expert_tensor 1 = 2");
    assert_refused((model_parallel){.data = 2,
                                    .context = 3,
                                    .tensor = 2,
                                    .expert_tensor = 1,
                                    .expert = 4,
                                    .sequence = true},
                   &config,
                   "expert 4 and context 3 x tensor 2 / expert_tensor 1: neither divides the "
                   "other");
}

TEST(sequences_that_do_not_divide_are_refused)
{
    const model_parallel context = {.context = 4};
    const model_parallel both = {.context = 4, .tensor = 8, .sequence = true};
    const model_parallel tensor = {.tensor = 3};

    assert_ok(model_parallel_check_sequence(&context, 4096, &why));
    assert_ok(model_parallel_check_sequence(&tensor, 4096, &why));
    assert_fails(model_parallel_check_sequence(&context, 4100, &why), STATUS_INVALID,
                 "context 4: 2 x 4 parts do not divide the 4100 tokens of a sequence");
    assert_ok(model_parallel_check_sequence(&both, 4096, &why));
    assert_fails(model_parallel_check_sequence(&both, 4104, &why), STATUS_INVALID,
                 "tensor 8 does not divide the 1026 tokens of a sequence that a "
                 "rank has, as sequence parallelism needs");
}

TEST(a_cluster_must_have_the_gpus)
{
    const model_parallel parallel = {.data = 8, .tensor = 4, .context = 2};

    assert_ok(model_parallel_check_cluster(&parallel, 16, 128, 8, &why));
    assert_fails(model_parallel_check_cluster(&parallel, 16, 127, 8, &why), STATUS_INVALID,
                 "data 8 x tensor 4 x context 2 x pipeline 16 need 1024 GPUs, "
                 "127 nodes of 8 have 1016");
}

static void assert_group(bal_group group, int rank_count, int node_rank_count)
{
    assert_int_equal(group.rank_count, rank_count);
    assert_int_equal(group.node_rank_count, node_rank_count);
    assert_int_equal(group.intra_node.latency_ns, 1);
    assert_int_equal(group.inter_node.latency_ns, 2);
}

TEST(replicas_fill_nodes_unless_the_pipeline_comes_first)
{
    model_parallel parallel = {.data = 16, .tensor = 2, .order = MODEL_RANK_ORDER_PIPELINE_FIRST};

    model_groups groups = model_parallel_groups(&parallel, &hardware);
    assert_group(groups.tensor, 2, 2);
    assert_group(groups.replicas, 16, 1);
    assert_int_equal(model_parallel_machine(&parallel, &hardware, 4).ranks_per_node, 4);

    parallel.order = MODEL_RANK_ORDER_DATA_FIRST;
    groups = model_parallel_groups(&parallel, &hardware);
    assert_group(groups.replicas, 16, 4);
    assert_int_equal(model_parallel_machine(&parallel, &hardware, 4).ranks_per_node, 1);
}

TEST(experts_stand_inside_the_pipeline)
{
    model_parallel parallel = {.data = 8, .tensor = 2, .context = 2, .expert = 4};

    // 2 tensor x 4 expert fill a node; 16 replicas of dense parameters, 4 of experts.
    model_groups groups = model_parallel_groups(&parallel, &hardware);
    assert_group(groups.context, 2, 2);
    assert_group(groups.expert, 4, 4);
    assert_group(groups.replicas, 16, 4);
    assert_group(groups.expert_replicas, 4, 1);
    assert_int_equal(model_parallel_machine(&parallel, &hardware, 4).ranks_per_node, 1);

    parallel.tensor = 1;
    groups = model_parallel_groups(&parallel, &hardware);
    assert_group(groups.expert_replicas, 4, 2);
}

TEST(experts_fold_over_the_tensor_ranks)
{
    const model_config config = mixtral();
    model_parallel parallel = {
        .data = 8, .tensor = 2, .expert = 8, .expert_tensor = 1, .sequence = true};
    assert_ok(model_parallel_check(&parallel, &config, NULL));

    // Two tensor ranks of four replicas hold the eight experts of a layer, on one node.
    const model_groups groups = model_parallel_groups(&parallel, &hardware);
    assert_group(groups.expert, 8, 8);
    assert_group(groups.expert_tensor, 1, 1);
    assert_group(groups.expert_replicas, 2, 1);
    assert_group(groups.replicas, 8, 4);
    model_expert_span span = model_parallel_expert_span(&parallel);
    assert_int_equal(span.replica_count, 4);
    assert_int_equal(span.group_count, 1);
    // Eight tensor ranks of one replica make two groups of four.
    parallel = (model_parallel){.tensor = 8, .expert = 4, .expert_tensor = 1, .sequence = true};
    assert_ok(model_parallel_check(&parallel, &config, NULL));
    span = model_parallel_expert_span(&parallel);
    assert_int_equal(span.replica_count, 1);
    assert_int_equal(span.group_count, 2);
    // Unless said, an expert is divided as all else.
    parallel = (model_parallel){.data = 4, .tensor = 2, .expert = 4};
    assert_int_equal(model_parallel_filled(parallel).expert_tensor, 2);
    assert_group(model_parallel_groups(&parallel, &hardware).expert_tensor, 2, 2);
    assert_int_equal(model_parallel_expert_span(&parallel).replica_count, 4);
}

/// Adam in mixed precision as the ZeRO paper counts it: 16-bit weights and gradients, K = 12.
static const model_parameter_bytes zero = {.weight = 2, .gradient = 2, .optimizer = 12};

static const bal_link link = {.latency_ns = 0, .bytes_per_s = 1000000000};

/// Rajbhandari et al., arXiv 1910.02054, figure 1: 7.5 billion parameters, 64 GPUs.
TEST(sharded_state_is_that_of_the_zero_paper)
{
    const int64_t parameters = 7500000000;
    const double published[MODEL_SHARDING_COUNT] = {120, 31.4, 16.6, 1.9};
    for (int sharding = 0; sharding < MODEL_SHARDING_COUNT; sharding++) {
        const int64_t bytes = model_state_bytes(parameters, zero, (model_sharding)sharding, 64);
        assert_true(fabs((double)bytes / 1e9 - published[sharding]) <= 0.05);
    }
}

TEST(shares_are_rounded_up_and_saturate)
{
    assert_int_equal(model_state_bytes(1, zero, MODEL_SHARDING_PARAMETERS, 64), 3);
    assert_int_equal(model_state_bytes(10, zero, MODEL_SHARDING_OPTIMIZER, 1), 160);
    assert_true(model_state_bytes(INT64_MAX / 2, zero, MODEL_SHARDING_NONE, 64) == INT64_MAX);
    assert_true(model_state_bytes(INT64_MAX / 2, zero, MODEL_SHARDING_PARAMETERS, 64) == INT64_MAX);
}

TEST(replicas_exchange_when_they_need_to)
{
    const model_parameter_bytes bytes = {.weight = 2, .gradient = 4, .optimizer = 12};
    const bal_group four = {4, 4, link, link};
    // 1000 parameters: gathering weights takes 3 x 500 ns, scattering gradients 3 x 1000 ns.
    static const int64_t wanted[MODEL_SHARDING_COUNT][4] = {
        {6000, 0, 0, 0}, {4500, 0, 0, 0}, {1500, 0, 0, 3000}, {0, 1500, 1500, 3000}};
    for (int sharding = 0; sharding < MODEL_SHARDING_COUNT; sharding++) {
        const model_replica_traffic traffic =
            model_replica_traffic_of(1000, bytes, (model_sharding)sharding, &four);
        assert_int_equal(traffic.step_ns, wanted[sharding][0]);
        assert_int_equal(traffic.forward_ns, wanted[sharding][1]);
        assert_int_equal(traffic.backward_ns, wanted[sharding][2]);
        assert_int_equal(traffic.gradient_ns, wanted[sharding][3]);
    }
}

TEST(nothing_to_exchange_takes_no_latency)
{
    const bal_link far = {.latency_ns = 5, .bytes_per_s = 1};
    const bal_group four = {4, 1, far, far};

    assert_int_equal(model_replica_traffic_of(0, zero, MODEL_SHARDING_NONE, &four).step_ns, 0);
    assert_true(
        model_replica_traffic_of(INT64_MAX, zero, MODEL_SHARDING_OPTIMIZER, &four).step_ns ==
        INT64_MAX / 4);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
