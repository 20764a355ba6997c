/// cost_model: both sides of the roofline, a layer's times worked out by hand, what is refused, and
/// the list of assumptions.
#include "base/rng.h"
#include "models/cost/config.h"
#include "models/cost/cost_model.h"
#include "tests/test_memory.h"

#include <math.h>
#include <string.h>

static model_config gpt;
static model_hardware h100;

static int prepare(void **state)
{
    open_memory(state);
    require(model_config_open("gpt-dynmo", NULL, memory, &gpt, &why));
    require(model_hardware_open("models/plain-h100.json", NULL, memory, &h100, &why));
    return 0;
}

static model_costs build_model(const model_config *config, const model_training *training)
{
    model_costs costs;
    require(model_costs_build(config, &h100, training, "c", "h", memory, &costs, &why));
    return costs;
}

static model_costs build(const model_training *training)
{
    return build_model(&gpt, training);
}

TEST(the_slower_side_of_the_roofline_counts)
{
    assert_int_equal(model_roofline_ns((model_work){3000, 1999}, 2e9, 1e9), 1999);
    assert_int_equal(model_roofline_ns((model_work){5000, 1999}, 2e9, 1e9), 2500);
    assert_int_equal(model_roofline_ns((model_work){4000, 2000}, 2e9, 1e9), 2000);
    assert_int_equal(model_roofline_ns((model_work){0, 7}, 2e9, 1e10), 1);
    assert_int_equal(model_roofline_ns((model_work){0, 0}, 2e9, 1e9), 0);
    assert_true(model_roofline_ns((model_work){INT64_MAX, 0}, 1e18, 1e18) == INT64_MAX / 4);
    assert_true(model_roofline_ns((model_work){1, INT64_MAX}, 1e18, 1e18) == INT64_MAX / 4);
    assert_true(model_roofline_ns((model_work){INT64_MAX / 2, 0}, 1, 1) == INT64_MAX / 4);
}

TEST(a_layer_takes_the_sum_of_its_parts)
{
    const model_training training = {
        .sequence_length = 2048, .microbatch_size = 2, .attention = "unfused"};
    const double gemm = 989e12 * 0.65;
    const double bytes_per_s = 3350e9 * 0.85;

    const model_costs costs = build(&training);

    // T = 4096 tokens, h = 1024. Products by FLOP; scores (64 heads x samples of 2048 x 2048, 13
    // bytes each in F, 19 in B) and vectors by bytes; elementwise 38 h bytes per token in F.
    const double projection = 2.0 * 4096 * 4 * 1024 * 1024 / gemm;
    const double mlp = 2 * projection;
    const double pairs = 64.0 * 2048 * 2048;
    const double vectors = 4096.0 * 4 * 1024 * 2;
    const double core_forward = (13 * pairs + vectors) / bytes_per_s;
    const double core_backward = (19 * pairs + 2 * vectors) / bytes_per_s;
    const double around_forward = 4096.0 * 1024 * 38 / bytes_per_s;
    const double around_backward = 4096.0 * 1024 * (2 * (6 + 10 + 12) + 2) / bytes_per_s;
    const double forward = projection + mlp + core_forward + around_forward;
    const double backward = projection + mlp + core_backward + around_backward;
    for (int layer = 1; layer <= 24; layer++) {
        assert_true(fabs((double)costs.layers.forward_ns[layer] - forward * 1e9) < 3);
        assert_true(fabs((double)costs.layers.backward_input_ns[layer] - backward * 1e9) < 3);
        assert_true(
            fabs((double)costs.layers.backward_weight_ns[layer] - (projection + mlp) * 1e9) < 3);
    }
}

static const model_assumption *find(const model_costs *costs, const char *name)
{
    for (int row = 0; row < costs->assumption_count; row++) {
        if (strcmp(costs->assumptions[row].name, name) == 0) return &costs->assumptions[row];
    }
    fail_msg("no assumption '%s'", name);
    return NULL;
}

static void assert_refused(const model_config *config, const model_training *training,
                           const char *message)
{
    model_costs costs = {.assumption_count = -7};

    assert_fails(model_costs_build(config, &h100, training, "c", "h", memory, &costs, &why),
                 STATUS_INVALID, message);
    assert_int_equal(costs.assumption_count, -7);
}

TEST(training_outside_its_limits_is_refused)
{
    model_config endless = gpt;
    endless.position_count = 0;

    assert_refused(&gpt, &(model_training){.sequence_length = 2049},
                   "sequence_length 2049 exceeds the 2048 positions of the model");
    assert_refused(&gpt, &(model_training){.sequence_length = -1},
                   "sequence_length -1 is outside [1, 16777216]");
    assert_refused(&gpt, &(model_training){.microbatch_size = 65537},
                   "microbatch_size 65537 is outside [1, 65536]");
    assert_refused(&gpt, &(model_training){.state_bytes_per_parameter = 1025},
                   "state_bytes_per_parameter 1025 is outside [1, 1024]");
    assert_refused(&gpt, &(model_training){.attention = "sdpa"},
                   "attention 'sdpa' is none of flash, flash-2 and unfused");
    const model_hardware given = h100;
    h100.flop_per_s[MODEL_DTYPE_FLOAT32] = 0;
    assert_refused(&gpt, &(model_training){.dtype = MODEL_DTYPE_FLOAT32},
                   "hardware 'h100-sxm' has no flop_per_s for dtype float32");
    h100 = given;
    assert_refused(&endless,
                   &(model_training){.sequence_length = 1 << 24, .microbatch_size = 1 << 16},
                   "forward_ns of layer 1: too large to be counted in 64 bits");
}

TEST(parts_sum_up_to_the_passes)
{
    const model_training training = {
        .sequence_length = 2048,
        .parallel = {.data = 4,
                     .tensor = 4,
                     .context = 2,
                     .sequence = true,
                     .recompute = MODEL_RECOMPUTE_FULL,
                     .sharding = MODEL_SHARDING_PARAMETERS},
    };

    const model_costs costs = build(&training);

    for (int layer = 0; layer < costs.layers.layer_count; layer++) {
        const int64_t pass_ns[MODEL_PASS_COUNT] = {costs.layers.forward_ns[layer],
                                                   costs.layers.backward_input_ns[layer],
                                                   costs.layers.backward_weight_ns[layer]};
        for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
            int64_t sum = 0;
            for (int part = 0; part < MODEL_COST_PART_COUNT; part++) {
                sum += costs.part_ns[pass][part][layer];
            }
            assert_int_equal(sum, pass_ns[pass]);
        }
    }
    assert_true(costs.part_ns[MODEL_PASS_FORWARD][MODEL_COST_TENSOR][5] > 0);
    assert_string_equal(model_cost_part_name(MODEL_COST_SHARDING), "sharding");
    assert_string_equal(find(&costs, "parallelism")->value,
                        "data 4, tensor 4 with sequence, context 2, expert 1");
    assert_int_equal(find(&costs, "links.inter")->origin.kind, MODEL_ORIGIN_PRESET);
}

TEST(b_computes_again_what_f_has_not_kept)
{
    model_training training = {.sequence_length = 2048, .attention = "unfused"};
    training.parallel.tensor = 2;
    const model_costs none = build(&training);
    training.parallel.recompute = MODEL_RECOMPUTE_SELECTIVE;
    const model_costs selective = build(&training);
    training.parallel.recompute = MODEL_RECOMPUTE_FULL;
    const model_costs full = build(&training);

    const bal_layer_costs *plain = &none.layers;
    const int64_t core_ns = none.part_ns[MODEL_PASS_FORWARD][MODEL_COST_ATTENTION][3];
    assert_int_equal(selective.layers.backward_input_ns[3], plain->backward_input_ns[3] + core_ns);
    assert_int_equal(full.layers.backward_input_ns[3],
                     plain->backward_input_ns[3] + plain->forward_ns[3]);
    const int64_t core_flop = INT64_C(4) * 2048 * 2048 * 1024 / 2; // both products, half the heads
    assert_int_equal(selective.flop[MODEL_PASS_BACKWARD_INPUT][3],
                     none.flop[MODEL_PASS_BACKWARD_INPUT][3] + core_flop);
    assert_int_equal(full.flop[MODEL_PASS_BACKWARD_INPUT][3],
                     none.flop[MODEL_PASS_BACKWARD_INPUT][3] + none.flop[MODEL_PASS_FORWARD][3]);
    assert_int_equal(full.layers.activation_bytes[3], 2 * 2048 * 1024);
    // Neither F and W nor embedding and head know of it.
    const int rows[] = {0, 25};
    for (int row = 0; row < 2; row++) {
        assert_int_equal(full.layers.backward_input_ns[rows[row]],
                         plain->backward_input_ns[rows[row]]);
        assert_int_equal(full.layers.activation_bytes[rows[row]],
                         plain->activation_bytes[rows[row]]);
    }
    assert_int_equal(full.layers.forward_ns[3], plain->forward_ns[3]);
    assert_int_equal(full.layers.backward_weight_ns[3], plain->backward_weight_ns[3]);
}

/// Bytes and B of layer 3 under one recomputation, in vectors of 2048 tokens of 1024 numbers.
static model_costs recomputing(model_recompute recompute, int layers)
{
    model_training training = {.sequence_length = 2048};
    training.parallel.recompute = recompute;
    training.parallel.recompute_layers = layers;
    return build(&training);
}

TEST(modules_free_what_b_makes_again_of_them)
{
    const int64_t vector = INT64_C(2) * 2048 * 1024;
    const model_costs none = recomputing(MODEL_RECOMPUTE_NONE, 0);
    const model_costs norms = recomputing(MODEL_RECOMPUTE_NORMS, 0);
    const model_costs activation = recomputing(MODEL_RECOMPUTE_ACTIVATION, 0);
    const model_costs latent = recomputing(MODEL_RECOMPUTE_LATENT, 0);
    const model_costs mlp = recomputing(MODEL_RECOMPUTE_MLP, 0);

    // Outputs of two norms; of the activation, four vectors wide; its inputs, as wide.
    assert_int_equal(none.layers.activation_bytes[3] - norms.layers.activation_bytes[3],
                     2 * vector);
    assert_int_equal(norms.layers.activation_bytes[3] - activation.layers.activation_bytes[3],
                     4 * vector);
    assert_int_equal(activation.layers.activation_bytes[3], latent.layers.activation_bytes[3]);
    assert_int_equal(activation.layers.activation_bytes[3] - mlp.layers.activation_bytes[3],
                     4 * vector);
    assert_int_equal(norms.working_bytes, 2 * vector);
    // Two norms read and write a vector each, the activation reads and writes four.
    const double bytes_per_ns =
        (double)none.hardware.memory_bytes_per_s * none.hardware.memory_efficiency / 1e9;
    assert_close((double)(norms.layers.backward_input_ns[3] - none.layers.backward_input_ns[3]),
                 (double)(4 * vector) / bytes_per_ns, 1e-4);
    assert_close(
        (double)(activation.layers.backward_input_ns[3] - norms.layers.backward_input_ns[3]),
        (double)(8 * vector) / bytes_per_ns, 1e-4);
    assert_int_equal(mlp.layers.backward_input_ns[3] - activation.layers.backward_input_ns[3],
                     none.part_ns[MODEL_PASS_FORWARD][MODEL_COST_MLP][3]);
    assert_int_equal(norms.layers.forward_ns[3], none.layers.forward_ns[3]);
}

/// GPT-2 medium, 2048 tokens: of its six products queries, values and the first of the MLP stay.
TEST(every_second_product_may_be_made_again)
{
    const model_costs none = recomputing(MODEL_RECOMPUTE_NONE, 0);
    const model_costs every = recomputing(MODEL_RECOMPUTE_OPERATORS, 0);
    const int64_t tokens = 2048;
    const int64_t hidden = 1024;
    // The input, queries, values, the core's output; 4 hidden before the activation; 2 bytes each.
    assert_int_equal(every.layers.activation_bytes[3], 2 * tokens * (4 + 4) * hidden);
    assert_int_equal(every.working_bytes,
                     none.layers.activation_bytes[3] - every.layers.activation_bytes[3]);
    // Keys, the attention's output, the MLP's second matrix.
    assert_int_equal(every.flop[MODEL_PASS_BACKWARD_INPUT][3] -
                         none.flop[MODEL_PASS_BACKWARD_INPUT][3],
                     2 * tokens * (1 + 1 + 4) * hidden * hidden);
    assert_int_equal(every.layers.forward_ns[3], none.layers.forward_ns[3]);
    assert_true(every.layers.backward_input_ns[3] > none.layers.backward_input_ns[3]);
}

/// The last of six products and what sums it over tensor ranks are not needed by B.
TEST(b_may_stop_once_it_has_all_that_it_needs)
{
    model_training training = {.sequence_length = 2048, .parallel.tensor = 2};
    training.parallel.recompute = MODEL_RECOMPUTE_FULL;
    const model_costs full = build(&training);
    training.parallel.recompute = MODEL_RECOMPUTE_EARLY_STOP;
    const model_costs stopped = build(&training);
    const int64_t hidden = 1024;

    assert_int_equal(stopped.layers.activation_bytes[3], full.layers.activation_bytes[3]);
    assert_int_equal(full.flop[MODEL_PASS_BACKWARD_INPUT][3] -
                         stopped.flop[MODEL_PASS_BACKWARD_INPUT][3],
                     INT64_C(2) * 2048 * 4 * hidden * hidden / 2);
    // F sums after attention and after the MLP, B too, and makes the first of F's again.
    const int64_t summed_ns = full.part_ns[MODEL_PASS_FORWARD][MODEL_COST_TENSOR][3] / 2;
    assert_true(summed_ns > 0);
    assert_int_equal(full.part_ns[MODEL_PASS_BACKWARD_INPUT][MODEL_COST_TENSOR][3] -
                         stopped.part_ns[MODEL_PASS_BACKWARD_INPUT][MODEL_COST_TENSOR][3],
                     summed_ns);
    assert_true(stopped.part_ns[MODEL_PASS_BACKWARD_INPUT][MODEL_COST_MLP][3] <
                full.part_ns[MODEL_PASS_BACKWARD_INPUT][MODEL_COST_MLP][3]);
    assert_int_equal(stopped.part_ns[MODEL_PASS_BACKWARD_INPUT][MODEL_COST_PROJECTION][3],
                     full.part_ns[MODEL_PASS_BACKWARD_INPUT][MODEL_COST_PROJECTION][3]);
    assert_int_equal(stopped.layers.forward_ns[3], full.layers.forward_ns[3]);
}

TEST(what_is_kept_may_wait_on_a_host_that_has_a_link)
{
    const model_hardware given = h100;
    model_training training = {.sequence_length = 2048};
    training.parallel.recompute = MODEL_RECOMPUTE_OFFLOAD;
    assert_refused(&gpt, &training, "recompute offload: the hardware h100-sxm has no links.host");
    h100.host = (bal_link){.bytes_per_s = INT64_C(1000000000000000)};
    const model_costs none = recomputing(MODEL_RECOMPUTE_NONE, 0);
    const model_costs fast = recomputing(MODEL_RECOMPUTE_OFFLOAD, 0);
    const int64_t kept = none.layers.activation_bytes[3];

    // The layer's input stays; two layers are on the GPU for a while. Fast links hide.
    assert_int_equal(fast.layers.activation_bytes[3], 2 * 2048 * 1024);
    assert_int_equal(fast.working_bytes, 2 * (kept - 2 * 2048 * 1024));
    assert_int_equal(fast.layers.backward_input_ns[3], none.layers.backward_input_ns[3]);
    assert_int_equal(fast.flop[MODEL_PASS_BACKWARD_INPUT][3],
                     none.flop[MODEL_PASS_BACKWARD_INPUT][3]);
    // A byte a ns: both passes last as long as the way, W does not care.
    h100.host.bytes_per_s = 1000000000;
    const model_costs slow = recomputing(MODEL_RECOMPUTE_OFFLOAD, 0);
    assert_int_equal(slow.layers.forward_ns[3], kept - 2 * 2048 * 1024);
    assert_int_equal(slow.layers.backward_input_ns[3], kept - 2 * 2048 * 1024);
    assert_int_equal(slow.layers.backward_weight_ns[3], none.layers.backward_weight_ns[3]);
    assert_string_equal(find(&slow, "links.host")->value, "1 GB/s");
    h100 = given;
}

/// GPT-2 medium's forward in layer 3, on a host that takes so long for an operator.
static int64_t forward_with_host(int64_t operator_ns, bool blocking)
{
    const model_hardware given = h100;
    model_training training = {.sequence_length = 2048};
    training.parallel.blocking_launches = blocking;
    h100.operator_ns = operator_ns;
    const int64_t forward_ns = build_model(&gpt, &training).layers.forward_ns[3];
    h100 = given;
    return forward_ns;
}

TEST(a_host_that_waits_for_each_kernel_adds_its_time)
{
    const int64_t alone = forward_with_host(0, false);
    const int64_t waiting = forward_with_host(0, true);
    assert_int_equal(forward_with_host(100, false), alone); // hidden by kernels
    const int64_t added = forward_with_host(100, true) - waiting;
    assert_in_range(added, 1000, 100000);
    assert_int_equal(forward_with_host(200, true) - waiting, 2 * added);
}

TEST(the_host_starts_nothing_of_iterations_that_are_graphs)
{
    const model_hardware given = h100;
    model_training training = {.sequence_length = 2048};
    const int64_t alone = forward_with_host(0, false);
    assert_true(forward_with_host(1000000, false) > alone);
    training.parallel.cuda_graphs = true;
    h100.operator_ns = 1000000;
    const model_costs graphs = build_model(&gpt, &training);
    h100 = given;
    assert_int_equal(graphs.layers.forward_ns[3], alone);
    assert_string_equal(find(&graphs, "cuda_graphs")->value, "of whole iterations");
}

TEST(some_layers_compute_again_spread_over_the_model)
{
    const model_costs none = recomputing(MODEL_RECOMPUTE_NONE, 0);
    const model_costs third = recomputing(MODEL_RECOMPUTE_FULL, 8);
    for (int layer = 0; layer < 24; layer++) {
        const bool again = layer % 3 == 2;
        assert_int_equal(third.layers.backward_input_ns[layer + 1],
                         none.layers.backward_input_ns[layer + 1] +
                             (again ? none.layers.forward_ns[layer + 1] : 0));
    }
}

TEST(latent_attention_makes_queries_keys_and_values_again)
{
    model_config config;
    require(model_config_open("deepseek-v3", NULL, memory, &config, &why));
    model_training training = {.sequence_length = 4096};
    training.parallel.recompute = MODEL_RECOMPUTE_ACTIVATION;
    const model_costs before = build_model(&config, &training);
    training.parallel.recompute = MODEL_RECOMPUTE_LATENT;
    const model_costs after = build_model(&config, &training);

    // Of 128 heads keys and queries of 192, values of 128; compressed ones of 1536 and 512, normed.
    assert_int_equal(before.layers.activation_bytes[5] - after.layers.activation_bytes[5],
                     INT64_C(2) * 4096 * (128 * (192 + 192 + 128) + 1536 + 512));
    assert_true(after.layers.backward_input_ns[5] > before.layers.backward_input_ns[5]);
    assert_int_equal(after.flop[MODEL_PASS_BACKWARD_INPUT][5] -
                         before.flop[MODEL_PASS_BACKWARD_INPUT][5],
                     INT64_C(2) * 4096 * 128 * (1536 * 192 + 512 * (128 + 128)));
}

TEST(modules_of_prediction_are_layers_beside_the_head)
{
    const model_training training = {.sequence_length = 4096};
    model_config config;
    model_costs costs[3];
    require(model_config_open("deepseek-v3", NULL, memory, &config, &why));
    assert_int_equal(config.prediction_layer_count, 1);
    for (int modules = 0; modules < 3; modules++) {
        config.prediction_layer_count = modules;
        costs[modules] = build_model(&config, &training);
        assert_int_equal(costs[modules].total_parameters, costs[0].total_parameters);
    }
    const int head = 62, last = 61;
    const bal_layer_costs *without = &costs[0].layers, *one = &costs[1].layers;
    // A matrix of 2 x 7168 by 7168, three norms, and a copy of the embedding.
    const int64_t matrix = INT64_C(2) * 7168 * 7168;
    assert_int_equal(one->parameters[head] - without->parameters[head],
                     without->parameters[last] + matrix + 3 * 7168 + INT64_C(129280) * 7168);
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        int64_t parts = 0;
        for (int part = 0; part < MODEL_COST_PART_COUNT; part++) {
            parts += costs[1].part_ns[pass][part][head];
        }
        const int64_t *ns[] = {one->forward_ns, one->backward_input_ns, one->backward_weight_ns};
        assert_int_equal(parts, ns[pass][head]);
    }
    assert_int_equal(costs[1].flop[MODEL_PASS_FORWARD][head],
                     2 * costs[0].flop[MODEL_PASS_FORWARD][head] +
                         costs[0].flop[MODEL_PASS_FORWARD][last] + 2 * 4096 * matrix);
    assert_int_equal(
        costs[2].flop[MODEL_PASS_FORWARD][head] - costs[1].flop[MODEL_PASS_FORWARD][head],
        costs[1].flop[MODEL_PASS_FORWARD][head] - costs[0].flop[MODEL_PASS_FORWARD][head]);
    assert_int_equal(one->message_bytes[head], 0);
    assert_int_equal(one->activation_bytes[head] - without->activation_bytes[head],
                     without->activation_bytes[last] + without->activation_bytes[head] +
                         2 * 2 * 4096 * 7168);
    assert_true(costs[1].update_ns > costs[0].update_ns);
}

TEST(replicas_reduce_dense_and_expert_parameters_apart)
{
    model_config mixtral;
    require(model_config_open("mixtral-8x7b", NULL, memory, &mixtral, &why));
    const model_training training = {
        .parallel = {.data = 16, .expert = 8, .sharding = MODEL_SHARDING_OPTIMIZER}};

    const model_costs costs = build_model(&mixtral, &training);

    const int64_t expert = INT64_C(3) * 4096 * 14336;
    const int64_t dense = costs.layers.parameters[1] - expert;
    assert_int_equal(dense, 41943040 + 8 * 4096 + 2 * 4096);
    // 16 replicas of dense parameters, 8 of them on a node; 2 of each expert, a node apart.
    const bal_group all = {16, 8, h100.intra_node, h100.inter_node};
    const bal_group pair = {2, 1, h100.intra_node, h100.inter_node};
    assert_int_equal(costs.layers.reduction_ns[1],
                     bal_group_reduce_scatter_ns(&all, 4 * dense) +
                         bal_group_all_gather_ns(&all, 2 * dense) +
                         bal_group_reduce_scatter_ns(&pair, 4 * expert) +
                         bal_group_all_gather_ns(&pair, 2 * expert));
    assert_int_equal(costs.layers.state_bytes[1],
                     6 * (dense + expert) + (12 * dense + 15) / 16 + 12 * expert / 2);
}

TEST(sharded_weights_hide_behind_the_pass_they_are_for)
{
    model_training training = {.sequence_length = 2048, .microbatch_size = 1};
    training.parallel = (model_parallel){
        .data = 8, .sharding = MODEL_SHARDING_PARAMETERS, .order = MODEL_RANK_ORDER_PIPELINE_FIRST};
    const model_costs exposed = build(&training);
    training.parallel.sharding = MODEL_SHARDING_NONE;
    const model_costs whole = build(&training);
    training.parallel.sharding = MODEL_SHARDING_PARAMETERS;
    training.microbatch_size = 64;
    const model_costs hidden = build(&training);

    const bal_group apart = {8, 1, h100.intra_node, h100.inter_node};
    const int64_t parameters = 12596224;
    assert_int_equal(exposed.layers.forward_ns[2], bal_group_all_gather_ns(&apart, 2 * parameters));
    assert_int_equal(exposed.layers.backward_weight_ns[2],
                     bal_group_reduce_scatter_ns(&apart, 4 * parameters));
    assert_int_equal(exposed.layers.reduction_ns[2], 0);
    assert_int_equal(whole.layers.reduction_ns[2], bal_group_all_reduce_ns(&apart, 4 * parameters));
    assert_int_equal(hidden.part_ns[MODEL_PASS_FORWARD][MODEL_COST_SHARDING][2], 0);
    assert_int_equal(exposed.layers.state_bytes[2], 18 * parameters / 8);
}

TEST(what_is_held_for_a_while_is_told_apart)
{
    model_training training = {.sequence_length = 2048, .attention = "unfused"};
    const int64_t parameters = (50257 + 2048) * 1024; // the embedding's are the most
    const int64_t layer_parameters = 12596224;
    const int64_t sbh = 2048 * 1024;
    const int64_t scores = INT64_C(5) * 32 * 2048 * 2048;

    assert_int_equal(build(&training).working_bytes, 0);
    training.parallel.recompute = MODEL_RECOMPUTE_SELECTIVE;
    assert_int_equal(build(&training).working_bytes, scores);
    training.parallel.recompute = MODEL_RECOMPUTE_FULL;
    assert_int_equal(build(&training).working_bytes, 32 * sbh + scores);
    training.parallel.sharding = MODEL_SHARDING_PARAMETERS;
    assert_int_equal(build(&training).working_bytes,
                     32 * sbh + scores + (2 * 2 + 4) * layer_parameters);
    training.parallel.recompute = MODEL_RECOMPUTE_NONE;
    assert_int_equal(build(&training).working_bytes, (2 * 2 + 4) * parameters);
    training.parallel.sharding = MODEL_SHARDING_GRADIENTS;
    assert_int_equal(build(&training).working_bytes, 4 * parameters);
    training.parallel.sharding = MODEL_SHARDING_OPTIMIZER;
    assert_int_equal(build(&training).working_bytes, 0);
}

TEST(eight_bits_run_products_of_layers_at_their_own_rate)
{
    model_training training = {.sequence_length = 2048, .microbatch_size = 8};
    const model_costs wide = build(&training);
    training.dtype = MODEL_DTYPE_FLOAT8;
    const model_costs narrow = build(&training);

    const int64_t *const *before = wide.part_ns[MODEL_PASS_FORWARD];
    const int64_t *const *after = narrow.part_ns[MODEL_PASS_FORWARD];
    assert_close((double)before[MODEL_COST_MLP][1] / (double)after[MODEL_COST_MLP][1], 1979.0 / 989,
                 1e-5);
    assert_int_equal(after[MODEL_COST_ATTENTION][1], before[MODEL_COST_ATTENTION][1]);
    // B and W sum in 32 bits, which takes Hopper 1.15 times as long.
    for (int pass = MODEL_PASS_BACKWARD_INPUT; pass < MODEL_PASS_COUNT; pass++) {
        assert_close((double)wide.part_ns[pass][MODEL_COST_MLP][1] /
                         (double)narrow.part_ns[pass][MODEL_COST_MLP][1],
                     1979.0 / 989 / 1.15, 1e-5);
    }
    assert_int_equal(after[MODEL_COST_PROJECTION][25], before[MODEL_COST_PROJECTION][25]);
    assert_int_equal(narrow.layers.state_bytes[1], wide.layers.state_bytes[1]);
    assert_string_equal(find(&narrow, "dtype")->value,
                        "float8 products of layers, all else bfloat16");
}

TEST(degrees_and_bytes_that_do_not_fit_are_refused)
{
    assert_refused(&gpt, &(model_training){.sequence_length = 2046, .parallel = {.context = 2}},
                   "context 2: 2 x 2 parts do not divide the 2046 tokens of a sequence");
    assert_refused(&gpt, &(model_training){.layer_count = -1},
                   "layer_count -1 is outside [1, 16384]");
    assert_refused(&gpt, &(model_training){.gradient_bytes_per_parameter = 1025},
                   "gradient_bytes_per_parameter 1025 is outside [1, 1024]");
    assert_refused(&gpt,
                   &(model_training){.state_bytes_per_parameter = 5,
                                     .parallel = {.sharding = MODEL_SHARDING_OPTIMIZER}},
                   "state_bytes_per_parameter 5 is below the 2 of a weight and the 4 of its "
                   "gradient, which sharding tells apart");
    const model_costs whole = build(&(model_training){.state_bytes_per_parameter = 5});
    assert_int_equal(whole.layers.state_bytes[1], 5 * 12596224);
    const model_hardware given = h100;
    h100.flop_per_s[MODEL_DTYPE_BFLOAT16] = 0;
    assert_refused(&gpt, &(model_training){.dtype = MODEL_DTYPE_FLOAT8},
                   "hardware 'h100-sxm' has no flop_per_s for dtype bfloat16");
    h100 = given;
}

/// F, B and W of all layers.
static int64_t total_ns(const model_training *training)
{
    const model_costs costs = build(training);
    int64_t sum = 0;
    for (int layer = 0; layer < costs.layers.layer_count; layer++) {
        sum += costs.layers.forward_ns[layer] + costs.layers.backward_input_ns[layer] +
               costs.layers.backward_weight_ns[layer];
    }
    return sum;
}

TEST(faster_hardware_and_less_work_never_take_longer)
{
    const uint64_t seed = 3;
    rng random = rng_init(seed, 0);
    for (int round = 0; round < 100; round++) {
        const model_training training = {.sequence_length = (int)rng_between(&random, 1, 2047),
                                         .microbatch_size = (int)rng_between(&random, 1, 16),
                                         .attention = round % 2 == 0 ? "flash" : "unfused"};
        model_training longer = training;
        longer.sequence_length++;
        const int64_t here = total_ns(&training);
        assert_true(total_ns(&longer) >= here);

        const model_hardware given = h100;
        h100.flop_per_s[MODEL_DTYPE_BFLOAT16] += rng_between(&random, 0, 1000000000000000);
        assert_true(total_ns(&training) <= here);
        h100 = given;
        h100.memory_bytes_per_s += rng_between(&random, 0, 5000000000000);
        assert_true(total_ns(&training) <= here);
        h100 = given;
        h100.gemm_efficiency = 0.9;
        assert_true(total_ns(&training) <= here);
        h100 = given;
    }
}

static int power_of_two(rng *random, int most)
{
    return 1 << rng_between(random, 0, most);
}

static model_training random_training(rng *random)
{
    model_training training = {
        .sequence_length = 256 * (int)rng_between(random, 1, 16),
        .microbatch_size = (int)rng_between(random, 1, 3),
        .dtype = rng_between(random, 0, 1) == 0 ? MODEL_DTYPE_BFLOAT16 : MODEL_DTYPE_FLOAT8,
        .attention = rng_between(random, 0, 1) == 0 ? "flash" : "unfused",
        .layer_count = 2,
    };
    training.parallel = (model_parallel){
        .data = power_of_two(random, 5),
        .tensor = power_of_two(random, 5),
        .expert = power_of_two(random, 3),
        .expert_tensor = rng_between(random, 0, 1) == 0 ? 0 : power_of_two(random, 3),
        .context = power_of_two(random, 3),
        .sequence = rng_between(random, 0, 2) > 0,
        .recompute = (model_recompute)rng_between(random, 0, MODEL_RECOMPUTE_COUNT - 1),
        .sharding = (model_sharding)rng_between(random, 0, MODEL_SHARDING_COUNT - 1),
        .order = (model_rank_order)rng_between(random, 0, MODEL_RANK_ORDER_COUNT - 1),
    };
    return training;
}

/// All GPUs of a replica together do the work of one that had all of it, and hold all experts.
static void assert_shares_make_a_whole(const model_costs *costs, const model_costs *whole)
{
    const model_parallel degrees = costs->shape.parallel;
    const int64_t gpus = (int64_t)degrees.tensor * degrees.context;
    const model_config slice = model_gpu_slice(&costs->config, &degrees);
    assert_int_equal(model_layer_expert_parameters(&slice, 0) * degrees.expert *
                         degrees.expert_tensor,
                     model_layer_expert_parameters(&whole->config, 0));
    // The router is computed again by every rank of a tensor group that shares no tokens.
    assert_true(gpus * costs->flop[MODEL_PASS_BACKWARD_WEIGHT][1] >=
                whole->flop[MODEL_PASS_BACKWARD_WEIGHT][1]);
    assert_true(gpus * costs->flop[MODEL_PASS_BACKWARD_WEIGHT][1] <=
                whole->flop[MODEL_PASS_BACKWARD_WEIGHT][1] +
                    whole->flop[MODEL_PASS_BACKWARD_WEIGHT][1] / 8);
    assert_true(gpus * costs->flop[MODEL_PASS_FORWARD][3] >=
                whole->flop[MODEL_PASS_FORWARD][3]); // head, rounded up
    for (int layer = 0; layer < 4; layer++) {
        assert_true(costs->layers.activation_bytes[layer] <= whole->layers.activation_bytes[layer]);
        assert_true(costs->layers.state_bytes[layer] <= whole->layers.state_bytes[layer]);
        assert_true(costs->layers.message_bytes[layer] <= whole->layers.message_bytes[layer]);
    }
}

TEST(any_degrees_are_refused_or_share_the_work)
{
    model_config mixtral;
    rng random = rng_init(7, 0);
    int built = 0;
    require(model_config_open("mixtral-8x7b", NULL, memory, &mixtral, &why));
    for (int round = 0; round < 400; round++) {
        const model_training training = random_training(&random);
        model_training alone = training;
        alone.parallel = (model_parallel){0};
        model_costs costs;
        const model_costs whole = build_model(&mixtral, &alone);
        const status result =
            model_costs_build(&mixtral, &h100, &training, "c", "h", memory, &costs, &why);
        assert_true(result == STATUS_OK || result == STATUS_INVALID);
        if (result == STATUS_OK) {
            assert_shares_make_a_whole(&costs, &whole);
            built++;
        } else {
            assert_true(strlen(why.message) > 0);
        }
    }
    assert_true(built > 50);
}

int main(void)
{
    return run_all_tests(prepare, close_memory);
}
