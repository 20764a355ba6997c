/// dynamism, case early-exit: what tokens that have left take with them, by hand over a base of
/// round numbers, and what is refused.
#include "models/cost/cost_model.h"
#include "tests/models/dynamism_fixture.h"

// From the start half of the tokens go on after the exits of transformer layers 0 and 2.
#define HALF                                                                                       \
    "{'case':'early-exit','exits':[0,2],'keep_initial':0.5,'keep_final':0.5,'classifier':'none'"

FIXTURE_TEST(tokens_that_have_left_are_still_attended_to)
{
    const bal_layer_costs costs = fixture_costs(fixture_open(HALF "}"), 0, 0);

    // Shares 1, 1/2, 1/2, 1/8. Keys and values are half of the projection: x 1/2 + 1/2 share, that
    // is 3/4 and 9/16. F: 0.3, 0.1, 0.5, 0.1; B: 0.3, 0.2, 0.4, 0.1; W: 0.375, 0, 0.625, 0.
    fixture_times(&costs, 1, 1000, 2000, 800);
    fixture_times(&costs, 2, 225 + 350, 450 + 700, 225 + 250);
    fixture_times(&costs, 3, 575, 1150, 475);
    assert_int_equal(costs.forward_ns[4], 256);         // 168.75 + 87.5
    assert_int_equal(costs.backward_weight_ns[4], 231); // 168.75 + 62.5
    fixture_times(&costs, 5, 70, 140, 60);
    assert_int_equal(costs.activation_bytes[1], 1600);
    assert_int_equal(costs.activation_bytes[2], 800);
    assert_int_equal(costs.gradient_bytes[4], 200);
    assert_int_equal(costs.message_bytes[4], 1600);
    assert_int_equal(costs.state_bytes[4], 1600);
}

FIXTURE_TEST(survivors_attend_to_survivors)
{
    const bal_layer_costs costs =
        fixture_costs(fixture_open(HALF ",'attention_keys':'survivors'}"), 0, 0);

    // All but the core x 1/2, the core x 1/4.
    fixture_times(&costs, 2, 450 + 25, 800 + 100, 400);
    fixture_times(&costs, 5, 70, 140, 60);
}

FIXTURE_TEST(an_exit_with_a_head_costs_what_the_head_does)
{
    const char *with_head = "{'case':'early-exit','exits':[0,2],'keep_initial':0.5,"
                            "'keep_final':0.5,'classifier':'head'}";

    const bal_layer_costs costs = fixture_costs(fixture_open(with_head), 0, 0);

    fixture_times(&costs, 1, 1000 + 70, 2000 + 140, 800 + 60);
    fixture_times(&costs, 2, 575, 1150, 475);
    fixture_times(&costs, 3, 575 + 35, 1150 + 70, 475 + 30);
    assert_int_equal(costs.parameters[1], 3200);
    assert_int_equal(costs.state_bytes[3], 3200);
    assert_int_equal(costs.parameters[2], 1600);
    assert_int_equal(costs.activation_bytes[1], 3200);
    assert_int_equal(costs.activation_bytes[3], 1600);
}

FIXTURE_TEST(measures_without_a_head_read_the_states)
{
    const model_hardware hardware = {.memory_bytes_per_s = 1000000000, .memory_efficiency = 0.5};
    fixture->base.hardware = &hardware;
    const char *linear = "{'case':'early-exit','exits':[0,2],'keep_initial':0.5,'keep_final':0.5}";

    const bal_layer_costs costs = fixture_costs(fixture_open(linear), 0, 0);

    // 1600 bytes at 0.5 bytes per ns, twice that in B; half of the tokens at the second exit.
    fixture_times(&costs, 1, 1000 + 3200, 2000 + 6400, 800);
    fixture_times(&costs, 3, 575 + 1600, 1150 + 3200, 475);

    // The cosine reads the states on both sides of the layer, and nothing learns from it.
    const char *saturation = "{'case':'early-exit','exits':[0,2],'keep_initial':0.5,"
                             "'keep_final':0.5,'classifier':'saturation'}";
    const bal_layer_costs cosine = fixture_costs(fixture_open(saturation), 0, 0);
    fixture_times(&cosine, 1, 1000 + 6400, 2000, 800);
    fixture_times(&cosine, 3, 575 + 3200, 1150, 475);
}

FIXTURE_TEST(confidence_grows_at_intervals)
{
    model_dynamism *exits = fixture_open("{'case':'early-exit','first_exit':1,'interval':100}");
    int64_t before = INT64_MAX;
    for (int iteration = 0; iteration < 1000; iteration++) {
        const bal_layer_costs costs = fixture_costs(exits, 0, iteration);
        assert_int_equal(fixture->changed, iteration % 100 == 0);
        assert_int_equal(costs.forward_ns[1], 1000);
        assert_int_equal(costs.forward_ns[2], 1000);
        assert_true(costs.forward_ns[4] <= costs.forward_ns[3]);
        assert_true(fixture->changed ? costs.forward_ns[4] < before
                                     : costs.forward_ns[4] == before);
        before = costs.forward_ns[4];
    }
}

FIXTURE_TEST(grouped_keys_make_the_projection_smaller)
{
    const model_training training = {.sequence_length = 2048};
    model_costs costs;
    model_source source;
    model_layer_shares shares;
    assert_ok(model_costs_from_files("llama-3-8b", "models/plain-h100.json", &training,
                                     fixture->memory, &costs, NULL));
    model_layer_shares_of_costs(&costs, fixture->memory, &shares);
    fixture->base = (model_dynamism_base){.source = model_source_init(&source, &costs),
                                          .shares = &shares,
                                          .config = &costs.config,
                                          .shape = &costs.shape,
                                          .hardware = &costs.hardware,
                                          .iteration_count = 1000,
                                          .microbatch_count = 8,
                                          .transformer_first = 1,
                                          .transformer_end = 33};
    model_dynamism *none =
        fixture_open("{'case':'early-exit','exits':[0],'keep_initial':0,'keep_final':0,"
                     "'classifier':'none'}");

    const bal_layer_costs left = fixture_costs(none, 0, 0);

    // Nobody is left, but keys and values are computed: 2 x 1024 of 2 x 4096 + 2 x 1024 columns.
    const double projection = shares.share[MODEL_PASS_FORWARD][MODEL_PART_PROJECTION][5];
    assert_close((double)left.forward_ns[5], (double)costs.layers.forward_ns[5] * projection * 0.2,
                 1e-3);
    assert_int_equal(left.forward_ns[1], costs.layers.forward_ns[1]);
}

FIXTURE_TEST(what_is_wrong_is_named)
{
    fixture_refused("{'case':'early-exit','exits':[4]}", STATUS_FORMAT,
                    "study.json: exits[0]: 4 is outside [0, 3]");
    fixture_refused("{'case':'early-exit','exits':[2,2]}", STATUS_INVALID,
                    "study.json: exits[1]: layer 2 is not after layer 2");
    fixture_refused("{'case':'early-exit','exits':[]}", STATUS_FORMAT,
                    "study.json: exits: not an array of transformer layers");
    fixture_unknown("{'case':'early-exit','exits':[1],'exit_every':2}", "exit_every");
    fixture_refused("{'case':'early-exit','first_exit':4}", STATUS_FORMAT,
                    "study.json: first_exit: 4 is outside [0, 3]");
    fixture_refused("{'case':'early-exit','keep_final':-0.5}", STATUS_FORMAT,
                    "study.json: keep_final: -0.5 is outside [0, 1]");
    fixture_refused("{'case':'early-exit','keep_initial':0.5}", STATUS_INVALID,
                    "case 'early-exit': keep_final 0.9 exceeds keep_initial 0.5: a model grows "
                    "surer, not less sure");
    fixture_refused("{'case':'early-exit','confidence_iterations':-5}", STATUS_FORMAT,
                    "study.json: confidence_iterations: -5 is outside [0.001, 1e+09]");
    fixture->costs.head = false;
    fixture_refused("{'case':'early-exit','classifier':'head'}", STATUS_INVALID,
                    "case 'early-exit': classifier 'head' takes as long as the model's head, "
                    "which the costs do not have");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
