/// dynamism, case pruning: times and bytes worked out by hand over a base of round numbers, what
/// real dtypes gain, and what is refused.
#include "models/cost/cost_model.h"
#include "tests/models/dynamism_fixture.h"

// Sparsities 0.7875 from iteration 12 and 0.9 from 14 on; all layers alike.
#define SCHEDULE                                                                                   \
    "{'case':'pruning','start_iteration':10,'end_iteration':14,'interval':2,"                      \
    "'sigma':[1,1,1,1],"
#define CURVE "'kernel_density':[0.1,0.5],'kernel_time_ratio':[0.5,1.5]"

FIXTURE_TEST(matrices_take_what_the_curve_says)
{
    model_dynamism *pruning = fixture_open(SCHEDULE "'kernels':'sparse'," CURVE "}");

    bal_layer_costs costs = fixture_costs(pruning, 0, 11);
    assert_int_equal(costs.forward_ns[1], 1000);
    assert_int_equal(costs.state_bytes[1], 1600);
    costs = fixture_costs(pruning, 0, 14);

    // Density 0.1, ratio 1/2: projection and MLP are 0.8 of F, 0.7 of B and all of W.
    assert_true(fixture->changed);
    for (int layer = 1; layer < 5; layer++) {
        fixture_times(&costs, layer, 600, 1300, 400);
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

FIXTURE_TEST(weight_gradients_have_a_curve_of_their_own)
{
    model_dynamism *pruning =
        fixture_open(SCHEDULE "'kernels':'sparse'," CURVE ",'weight_kernel_time_ratio':[0.25,4]}");

    const bal_layer_costs costs = fixture_costs(pruning, 0, 14);

    assert_int_equal(costs.forward_ns[1], 600);
    assert_int_equal(costs.backward_weight_ns[1], 200);
}

FIXTURE_TEST(gradients_that_are_left_are_reduced)
{
    fixture->costs.reduction_ns = fixture->bytes;

    model_dynamism *sparse = fixture_open(SCHEDULE "'kernels':'sparse'," CURVE "}");
    assert_int_equal(fixture_costs(sparse, 0, 14).reduction_ns[2], 160);
    // A dense kernel has dense gradients.
    model_dynamism *dense =
        fixture_open(SCHEDULE "'kernel_density':[0.1],'kernel_time_ratio':[2]}");
    assert_int_equal(fixture_costs(dense, 0, 14).reduction_ns[2], 1600);
}

FIXTURE_TEST(the_fastest_kernels_are_dense_ones_with_masks_until_sparse_ones_pay)
{
    // At density 0.2125 the ratio is 1.1, at 0.1 it is 0.65.
    model_dynamism *pruning =
        fixture_open(SCHEDULE "'kernel_density':[0.1,0.2125],'kernel_time_ratio':[0.65,1.1]}");

    bal_layer_costs costs = fixture_costs(pruning, 0, 12);
    assert_true(fixture->changed);
    assert_int_equal(costs.forward_ns[1], 1000);
    assert_int_equal(costs.backward_input_ns[1], 2000);
    assert_int_equal(costs.parameters[1], 340);
    assert_int_equal(costs.state_bytes[1], 1600);
    costs = fixture_costs(pruning, 0, 14);
    assert_int_equal(costs.forward_ns[1], 720);
    assert_int_equal(costs.state_bytes[1], 800);
}

FIXTURE_TEST(transposing_costs_bandwidth)
{
    const model_hardware hardware = {.memory_bytes_per_s = 1000000000, .memory_efficiency = 0.5};
    fixture->base.hardware = &hardware;
    model_dynamism *pruning = fixture_open(SCHEDULE "'kernels':'sparse'," CURVE "}");

    const bal_layer_costs costs = fixture_costs(pruning, 0, 14);

    // 160 weights, value of 2 bytes and index of 4, read and written at 0.5 bytes per ns.
    assert_int_equal(costs.backward_input_ns[1], 1300 + 160 * 6 * 2 * 2);
    assert_int_equal(costs.forward_ns[1], 600);
}

FIXTURE_TEST(changes_are_announced_where_sparsity_changes)
{
    model_dynamism *pruning = fixture_open(SCHEDULE "'kernels':'sparse'," CURVE "}");
    for (int iteration = 0; iteration < 30; iteration++) {
        fixture_costs(pruning, 0, iteration);
        assert_int_equal(fixture->changed, iteration == 0 || iteration == 12 || iteration == 14);
    }
}

FIXTURE_TEST(published_defaults_are_listed)
{
    fixture->base.iteration_count = 10000;
    model_dynamism *pruning = fixture_open("{'case':'pruning'}");
    model_dynamism *released = fixture_open("{'case':'pruning','schedule':'released'}");

    const model_assumption *end = fixture_assumption(pruning, "dynamism.end_iteration");
    assert_string_equal(end->value, "7000");
    assert_int_equal(end->origin.kind, MODEL_ORIGIN_PRESET);
    assert_string_equal(fixture_assumption(pruning, "dynamism.final_sparsity")->value, "0.9");
    assert_string_equal(fixture_assumption(released, "dynamism.start_iteration")->value, "2999");
    assert_int_equal(fixture_assumption(pruning, "dynamism.sigma_spread")->origin.kind,
                     MODEL_ORIGIN_ASSUMED);
    int64_t left = 0;
    const bal_layer_costs costs = fixture_costs(released, 0, 9999);
    for (int layer = 1; layer < 5; layer++) {
        left += costs.parameters[layer];
    }
    assert_close((double)left / (4 * 1600), 1 - 0.886, 0.005);
}

FIXTURE_TEST(what_is_wrong_is_named)
{
    fixture_refused("{'case':'pruning','final_sparsity':1.5}", STATUS_FORMAT,
                    "study.json: final_sparsity: 1.5 is outside [0, 1]");
    fixture_refused("{'case':'pruning','initial_sparsity':0.95}", STATUS_INVALID,
                    "case 'pruning': initial_sparsity 0.95 is outside [0, final_sparsity 0.9]");
    fixture_refused("{'case':'pruning','end_iteration':2000}", STATUS_INVALID,
                    "case 'pruning': the schedule ends before it starts: end_iteration 2000 is "
                    "not after start_iteration 3000");
    fixture_refused("{'case':'pruning','sigma':[1,2]}", STATUS_INVALID,
                    "study.json: sigma: 2 numbers for 4 transformer layers");
    fixture_refused("{'case':'pruning','sigma':[1,2,3,4,5]}", STATUS_FORMAT,
                    "study.json: sigma: not an array of 1 to 4 numbers");
    fixture_refused("{'case':'pruning','schedule':'cubic'}", STATUS_FORMAT,
                    "study.json: schedule: unknown schedule 'cubic'; known: zhu-gupta, released");
    fixture_refused("{'case':'pruning','kernel_density':[],'kernel_time_ratio':[]}", STATUS_FORMAT,
                    "study.json: kernel_density: not an array of 1 to 1024 numbers");
    fixture_refused("{'case':'pruning','kernel_density':[0.1,0.2]}", STATUS_INVALID,
                    "study.json: a curve needs kernel_density and kernel_time_ratio");
    fixture_refused("{'case':'pruning','kernel_density':[0.1,0.2],'kernel_time_ratio':[1]}",
                    STATUS_INVALID,
                    "study.json: kernel_time_ratio: 1 ratios for the 2 of kernel_density");
    fixture_refused("{'case':'pruning','kernel_density':[0.1,0.2],'kernel_time_ratio':[0.5,0.4]}",
                    STATUS_INVALID,
                    "case 'pruning': kernel_time_ratio: point 1 of the curve: ratio 0.4 is "
                    "below 0.5, the one before: a denser matrix cannot be faster");
    fixture->base.shares = NULL;
    fixture_refused("{'case':'pruning'}", STATUS_INVALID,
                    "study.json: case 'pruning' touches parts of a layer, and a trace does not "
                    "tell them apart: name the model that was traced, trace.model");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
