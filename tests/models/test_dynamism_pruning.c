/// dynamism, case pruning: times and bytes worked out by hand over a base of round numbers, what
/// real dtypes gain, and what is refused.
#include "models/cost/cost_model.h"
#include "tests/models/dynamism_fixture.h"

// Sparsities 0.7875 from iteration 12 and 0.9 from 14 on; all layers alike.
#define SCHEDULE                                                                                   \
    "{'case':'pruning','start_iteration':10,'end_iteration':14,'interval':2,"                      \
    "'sigma':[1,1,1,1],"
#define CURVE "'kernel_density':[0.1,0.5],'kernel_time_ratio':[0.5,1.5]"

static void matrices_take_what_the_curve_says(void **state)
{
    dynamism_fixture *fixture = *state;
    bool changed = false;
    model_dynamism *pruning = fixture_open(fixture, SCHEDULE "'kernels':'sparse'," CURVE "}");

    bal_layer_costs costs = fixture_costs(pruning, 0, 11, &changed);
    assert_int_equal(costs.forward_ns[1], 1000);
    assert_int_equal(costs.state_bytes[1], 1600);
    costs = fixture_costs(pruning, 0, 14, &changed);

    // Density 0.1, ratio 1/2: projection and MLP are 0.8 of F, 0.7 of B and all of W.
    assert_true(changed);
    for (int layer = 1; layer < 5; layer++) {
        assert_int_equal(costs.forward_ns[layer], 600);
        assert_int_equal(costs.backward_input_ns[layer], 1300);
        assert_int_equal(costs.backward_weight_ns[layer], 400);
        assert_int_equal(costs.parameters[layer], 160);
        assert_int_equal(costs.state_bytes[layer], 160 + 640); // 1 byte of state, 4 of index
        assert_int_equal(costs.activation_bytes[layer], 1600);
        assert_int_equal(costs.message_bytes[layer], 1600);
    }
    assert_int_equal(costs.forward_ns[0], 70);
    assert_int_equal(costs.forward_ns[5], 70);
    assert_int_equal(costs.parameters[5], 1600);
    assert_string_equal(fixture_assumption(pruning, "dynamism.compressed_state")->value,
                        "1 + 4 bytes a weight: less than dense from sparsity 0.8 on");
}

static void weight_gradients_have_a_curve_of_their_own(void **state)
{
    dynamism_fixture *fixture = *state;
    bool changed = false;
    model_dynamism *pruning = fixture_open(
        fixture, SCHEDULE "'kernels':'sparse'," CURVE ",'weight_kernel_time_ratio':[0.25,4]}");

    const bal_layer_costs costs = fixture_costs(pruning, 0, 14, &changed);

    assert_int_equal(costs.forward_ns[1], 600);
    assert_int_equal(costs.backward_weight_ns[1], 200);
}

static void gradients_that_are_left_are_reduced(void **state)
{
    dynamism_fixture *fixture = *state;
    bool changed = false;
    fixture->costs.reduction_ns = fixture->bytes;

    model_dynamism *sparse = fixture_open(fixture, SCHEDULE "'kernels':'sparse'," CURVE "}");
    assert_int_equal(fixture_costs(sparse, 0, 14, &changed).reduction_ns[2], 160);
    // A dense kernel has dense gradients.
    model_dynamism *dense =
        fixture_open(fixture, SCHEDULE "'kernel_density':[0.1],'kernel_time_ratio':[2]}");
    assert_int_equal(fixture_costs(dense, 0, 14, &changed).reduction_ns[2], 1600);
}

static void the_fastest_kernels_are_dense_ones_with_masks_until_sparse_ones_pay(void **state)
{
    dynamism_fixture *fixture = *state;
    bool changed = false;
    // At density 0.2125 the ratio is 1.1, at 0.1 it is 0.65.
    model_dynamism *pruning = fixture_open(
        fixture, SCHEDULE "'kernel_density':[0.1,0.2125],'kernel_time_ratio':[0.65,1.1]}");

    bal_layer_costs costs = fixture_costs(pruning, 0, 12, &changed);
    assert_true(changed);
    assert_int_equal(costs.forward_ns[1], 1000);
    assert_int_equal(costs.backward_input_ns[1], 2000);
    assert_int_equal(costs.parameters[1], 340);
    assert_int_equal(costs.state_bytes[1], 1600);
    costs = fixture_costs(pruning, 0, 14, &changed);
    assert_int_equal(costs.forward_ns[1], 720);
    assert_int_equal(costs.state_bytes[1], 800);
}

static void sparse_kernels_from_the_start_pay_for_the_dense_phase(void **state)
{
    dynamism_fixture *fixture = *state;
    bool changed = false;
    model_dynamism *pruning =
        fixture_open(fixture, SCHEDULE "'kernels':'sparse-always'," CURVE "}");

    const bal_layer_costs costs = fixture_costs(pruning, 0, 0, &changed);

    // The slope goes on to 2.75 at density 1.
    assert_int_equal(costs.forward_ns[1], 2400);
    assert_int_equal(costs.parameters[1], 1600);
    assert_int_equal(costs.state_bytes[1], 5 * 1600);
}

static void transposing_costs_bandwidth(void **state)
{
    dynamism_fixture *fixture = *state;
    bool changed = false;
    const model_hardware hardware = {.memory_bytes_per_s = 1000000000, .memory_efficiency = 0.5};
    fixture->base.hardware = &hardware;
    model_dynamism *pruning = fixture_open(fixture, SCHEDULE "'kernels':'sparse'," CURVE "}");

    const bal_layer_costs costs = fixture_costs(pruning, 0, 14, &changed);

    // 160 weights, value of 2 bytes and index of 4, read and written at 0.5 bytes per ns.
    assert_int_equal(costs.backward_input_ns[1], 1300 + 160 * 6 * 2 * 2);
    assert_int_equal(costs.forward_ns[1], 600);
}

static void the_published_load_is_the_density(void **state)
{
    dynamism_fixture *fixture = *state;
    bool changed = false;
    int64_t load_ns[FIXTURE_LAYERS];
    model_dynamism *pruning = fixture_open(fixture, SCHEDULE "'load_model':'published'}");

    const bal_layer_costs costs = fixture_costs(pruning, 0, 14, &changed);

    assert_int_equal(costs.forward_ns[1], 100);
    assert_int_equal(costs.backward_input_ns[1], 200);
    assert_int_equal(costs.backward_weight_ns[1], 80);
    assert_int_equal(model_dynamism_published_load(pruning, 14, 0, load_ns, NULL), STATUS_OK);
    assert_int_equal(load_ns[1], 380);
    assert_int_equal(load_ns[5], 270);
}

static void layers_of_narrow_weights_lose_more(void **state)
{
    dynamism_fixture *fixture = *state;
    bool changed = false;
    model_dynamism *pruning =
        fixture_open(fixture, "{'case':'pruning','start_iteration':10,'end_iteration':14,"
                              "'interval':2,'sigma':[4,3,2,1],'load_model':'published'}");

    const bal_layer_costs costs = fixture_costs(pruning, 0, 14, &changed);

    int64_t sum = 0;
    for (int layer = 1; layer < 5; layer++) {
        sum += costs.parameters[layer];
        if (layer > 1) assert_true(costs.forward_ns[layer] < costs.forward_ns[layer - 1]);
    }
    assert_in_range(sum, 4 * 160 - 2, 4 * 160 + 2);
}

static void changes_are_announced_where_sparsity_changes(void **state)
{
    dynamism_fixture *fixture = *state;
    model_dynamism *pruning = fixture_open(fixture, SCHEDULE "'kernels':'sparse'," CURVE "}");
    for (int iteration = 0; iteration < 30; iteration++) {
        bool changed = false;
        fixture_costs(pruning, 0, iteration, &changed);
        assert_int_equal(changed, iteration == 0 || iteration == 12 || iteration == 14);
    }
}

static void published_defaults_are_listed(void **state)
{
    dynamism_fixture *fixture = *state;
    fixture->base.iteration_count = 10000;
    model_dynamism *pruning = fixture_open(fixture, "{'case':'pruning'}");
    model_dynamism *released = fixture_open(fixture, "{'case':'pruning','schedule':'released'}");
    bool changed = false;

    const model_assumption *end = fixture_assumption(pruning, "dynamism.end_iteration");
    assert_string_equal(end->value, "7000");
    assert_int_equal(end->origin.kind, MODEL_ORIGIN_PRESET);
    assert_string_equal(fixture_assumption(pruning, "dynamism.final_sparsity")->value, "0.9");
    assert_string_equal(fixture_assumption(released, "dynamism.start_iteration")->value, "2999");
    assert_int_equal(fixture_assumption(pruning, "dynamism.sigma_spread")->origin.kind,
                     MODEL_ORIGIN_ASSUMED);
    int64_t left = 0;
    const bal_layer_costs costs = fixture_costs(released, 0, 9999, &changed);
    for (int layer = 1; layer < 5; layer++) {
        left += costs.parameters[layer];
    }
    assert_close((double)left / (4 * 1600), 1 - 0.886, 0.005);
}

static void iterations_in_any_order_have_the_same_bytes(void **state)
{
    dynamism_fixture *fixture = *state;
    fixture_any_order(fixture, SCHEDULE CURVE "}", 20);
    fixture_any_order(fixture, SCHEDULE "'load_model':'published'}", 20);
}

static void the_same_seed_gives_the_same_bytes_everywhere(void **state)
{
    dynamism_fixture *fixture = *state;
    const char *seven = "{'case':'pruning','start_iteration':10,'end_iteration':20,'interval':1,"
                        "'seed':7," CURVE "}";
    const char *eight = "{'case':'pruning','start_iteration':10,'end_iteration':20,'interval':1,"
                        "'seed':8," CURVE "}";

    const uint64_t checksum = fixture_checksum(fixture_open(fixture, seven), 0, 30);

    assert_true(checksum == fixture_checksum(fixture_open(fixture, seven), 0, 30));
    assert_true(checksum != fixture_checksum(fixture_open(fixture, eight), 0, 30));
    assert_int_equal(checksum, UINT64_C(0x81f14868f5389d7f));
}

/// The paper's GPT on an H100 with the vendor's 67 TFLOP/s of 32-bit CUDA cores.
static model_costs gpt_costs(dynamism_fixture *fixture, model_dtype dtype)
{
    const model_training training = {.sequence_length = 2048, .microbatch_size = 2, .dtype = dtype};
    model_config config;
    model_hardware hardware;
    model_costs costs;
    error_message err = {0};
    assert_int_equal(model_config_open("gpt-dynmo", fixture->memory, &config, NULL), STATUS_OK);
    assert_int_equal(
        model_hardware_open("models/plain-h100.json", fixture->memory, &hardware, NULL), STATUS_OK);
    hardware.flop_per_s[MODEL_DTYPE_FLOAT32] = INT64_C(67000000000000);
    if (model_costs_build(&config, &hardware, &training, "gpt", "h100", fixture->memory, &costs,
                          &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    return costs;
}

/// F, B and W of all transformer layers at 90 % sparsity over those of the dense model.
static double time_ratio(dynamism_fixture *fixture, const model_costs *costs, const char *text)
{
    model_source *source = arena_array(fixture->memory, 1, sizeof *source);
    model_layer_shares *shares = arena_array(fixture->memory, 1, sizeof *shares);
    bool changed = false;
    model_layer_shares_of_costs(costs, fixture->memory, shares);
    fixture->base = (model_dynamism_base){.source = model_source_init(source, costs),
                                          .shares = shares,
                                          .config = &costs->config,
                                          .shape = &costs->shape,
                                          .hardware = &costs->hardware,
                                          .iteration_count = 10000,
                                          .microbatch_count = 32,
                                          .transformer_first = 1,
                                          .transformer_end = costs->config.layer_count + 1};
    model_dynamism *pruning = fixture_open(fixture, text);
    const bal_layer_costs pruned = fixture_costs(pruning, 0, 9000, &changed);
    int64_t before = 0;
    int64_t after = 0;
    for (int layer = 1; layer <= costs->config.layer_count; layer++) {
        before += costs->layers.forward_ns[layer] + costs->layers.backward_input_ns[layer] +
                  costs->layers.backward_weight_ns[layer];
        after += pruned.forward_ns[layer] + pruned.backward_input_ns[layer] +
                 pruned.backward_weight_ns[layer];
    }
    return (double)after / (double)before;
}

static void tensor_cores_gain_nothing_and_cuda_cores_some(void **state)
{
    dynamism_fixture *fixture = *state;
    const model_costs half = gpt_costs(fixture, MODEL_DTYPE_BFLOAT16);
    const model_costs single = gpt_costs(fixture, MODEL_DTYPE_FLOAT32);

    assert_true(time_ratio(fixture, &half, "{'case':'pruning'}") == 1);
    assert_true(time_ratio(fixture, &half, "{'case':'pruning','kernels':'sparse'}") >= 1);
    // 0.55 of the matrices' time, all of the rest.
    const double ratio = time_ratio(fixture, &single, "{'case':'pruning','sigma_spread':0}");
    assert_true(ratio > 0.55 && ratio < 0.75);
    // Norms and biases, 13 h of 12 h^2 + 13 h parameters, are not pruned.
    bool changed = false;
    model_dynamism *pruning = fixture_open(fixture, "{'case':'pruning','sigma_spread':0}");
    const bal_layer_costs costs = fixture_costs(pruning, 0, 9000, &changed);
    assert_int_equal(costs.parameters[1], 12 * 1024 * 1024 / 10 + 13 * 1024);
}

static void what_is_wrong_is_named(void **state)
{
    dynamism_fixture *fixture = *state;

    fixture_refused(fixture, "{'case':'pruning','final_sparsity':1.5}", STATUS_FORMAT,
                    "study.json: final_sparsity: 1.5 is outside [0, 1]");
    fixture_refused(fixture, "{'case':'pruning','initial_sparsity':0.95}", STATUS_INVALID,
                    "case 'pruning': initial_sparsity 0.95 is outside [0, final_sparsity 0.9]");
    fixture_refused(fixture, "{'case':'pruning','end_iteration':2000}", STATUS_INVALID,
                    "case 'pruning': the schedule ends before it starts: end_iteration 2000 is "
                    "not after start_iteration 3000");
    fixture_refused(fixture, "{'case':'pruning','sigma':[1,2]}", STATUS_INVALID,
                    "study.json: sigma: 2 numbers for 4 transformer layers");
    fixture_refused(fixture, "{'case':'pruning','sigma':[1,2,3,4,5]}", STATUS_FORMAT,
                    "study.json: sigma: not an array of 1 to 4 numbers");
    fixture_refused(fixture, "{'case':'pruning','schedule':'cubic'}", STATUS_FORMAT,
                    "study.json: schedule: unknown schedule 'cubic'; known: zhu-gupta, released");
    fixture_refused(fixture, "{'case':'pruning','kernel_density':[],'kernel_time_ratio':[]}",
                    STATUS_FORMAT, "study.json: kernel_density: not an array of 1 to 1024 numbers");
    fixture_refused(fixture, "{'case':'pruning','kernel_density':[0.1,0.2]}", STATUS_INVALID,
                    "study.json: a curve needs kernel_density and kernel_time_ratio");
    fixture_refused(
        fixture, "{'case':'pruning','kernel_density':[0.1,0.2],'kernel_time_ratio':[1]}",
        STATUS_INVALID, "study.json: kernel_time_ratio: 1 ratios for the 2 of kernel_density");
    fixture_refused(fixture,
                    "{'case':'pruning','kernel_density':[0.1,0.2],'kernel_time_ratio':[0.5,0.4]}",
                    STATUS_INVALID,
                    "case 'pruning': kernel_time_ratio: point 1 of the curve: ratio 0.4 is "
                    "below 0.5, the one before: a denser matrix cannot be faster");
    fixture->base.shares = NULL;
    fixture_refused(fixture, "{'case':'pruning'}", STATUS_INVALID,
                    "study.json: case 'pruning' touches parts of a layer, and a trace does not "
                    "tell them apart: name the model beside it, or state \"shares\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_prepare, fixture_clean)
        TEST(matrices_take_what_the_curve_says),
        TEST(weight_gradients_have_a_curve_of_their_own),
        TEST(gradients_that_are_left_are_reduced),
        TEST(the_fastest_kernels_are_dense_ones_with_masks_until_sparse_ones_pay),
        TEST(sparse_kernels_from_the_start_pay_for_the_dense_phase),
        TEST(transposing_costs_bandwidth),
        TEST(the_published_load_is_the_density),
        TEST(layers_of_narrow_weights_lose_more),
        TEST(changes_are_announced_where_sparsity_changes),
        TEST(published_defaults_are_listed),
        TEST(iterations_in_any_order_have_the_same_bytes),
        TEST(the_same_seed_gives_the_same_bytes_everywhere),
        TEST(tensor_cores_gain_nothing_and_cuda_cores_some),
        TEST(what_is_wrong_is_named),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
