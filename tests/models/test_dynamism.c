/// dynamism: how a load is applied to a base, what is refused, which shares hold, determinism; and
/// the case mod, with factors worked out by hand over a base of round numbers.
#include "base/rng.h"
#include "tests/models/dynamism_fixture.h"

#include <math.h>

FIXTURE_TEST(a_routed_block_shrinks_part_by_part)
{
    model_dynamism *mod = fixture_open("{'case':'mod','capacity_ratio':0.25}");

    const bal_layer_costs costs = fixture_costs(mod, 0, 0);

    // Blocks 1 and 3 are routed: linear parts x 1/4, the core x 1/16.
    assert_int_equal(costs.microbatch_count, 1);
    assert_int_equal(costs.forward_ns[1], 1000);
    assert_int_equal(costs.forward_ns[2], 225 + 6); // 6.25
    assert_int_equal(costs.forward_ns[3], 1000);
    assert_int_equal(costs.forward_ns[4], 231);
    assert_int_equal(costs.backward_input_ns[2], 400 + 25);
    assert_int_equal(costs.backward_weight_ns[2], 200);
    assert_int_equal(costs.forward_ns[0], 70);
    assert_int_equal(costs.forward_ns[5], 70);
    assert_int_equal(costs.activation_bytes[2], 400);
    assert_int_equal(costs.gradient_bytes[2], 400);
    assert_int_equal(costs.message_bytes[2], 1600);
    assert_int_equal(costs.state_bytes[2], 1600);
    assert_int_equal(costs.activation_bytes[1], 1600);
    assert_true(fixture->changed);
}

FIXTURE_TEST(the_published_load_model_scales_the_whole_layer)
{
    static const struct {
        const char *text; // without the load model
        int iteration, layer;
        int64_t forward_ns, backward_input_ns, backward_weight_ns;
        int64_t activation_bytes; // of a frozen layer nothing
    } cases[] = {
        {"{'case':'mod','capacity_ratio':0.25,'routing_weight':0.5", 0, 2, 125, 250, 100, 1600},
        {"{'case':'early-exit','exits':[0,2],'keep_initial':0.5,'keep_final':0.5", 0, 2, 500, 1000,
         400, 1600},
        {"{'case':'early-exit','exits':[0,2],'keep_initial':0.5,'keep_final':0.5", 0, 4, 125, 250,
         100, 1600},
        {"{'case':'freezing','schedule':'list','freeze_at':[10,20]", 10, 1, 0, 0, 0, 0},
        {"{'case':'freezing','schedule':'list','freeze_at':[10,20]", 10, 2, 1000, 2000, 800, 1600},
        {"{'case':'pruning','start_iteration':10,'end_iteration':14,'interval':2,"
         "'sigma':[1,1,1,1]",
         14, 1, 100, 200, 80, 1600},
        {"{'case':'sparse-attention','kept':[0.25]", 0, 1, 250, 500, 200, 1600},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        char text[256];
        int64_t load_ns[FIXTURE_LAYERS];
        const int layer = cases[each].layer;
        const int64_t forward_ns = cases[each].forward_ns;
        snprintf(text, sizeof text, "%s,'load_model':'published'}", cases[each].text);
        model_dynamism *published = fixture_open(text);

        const bal_layer_costs costs = fixture_costs(published, 0, cases[each].iteration);

        fixture_times(&costs, layer, forward_ns, cases[each].backward_input_ns,
                      cases[each].backward_weight_ns);
        fixture_times(&costs, 5, 70, 140, 60);
        assert_int_equal(costs.activation_bytes[layer], cases[each].activation_bytes);
        // Whichever model of the load a study takes, it can ask for the published one.
        snprintf(text, sizeof text, "%s}", cases[each].text);
        assert_ok(model_dynamism_published_load(fixture_open(text), cases[each].iteration, 0,
                                                load_ns, NULL));
        assert_int_equal(load_ns[layer], 38 * forward_ns / 10);
        assert_int_equal(load_ns[5], 270);
    }
}

FIXTURE_TEST(a_base_without_split_loses_what_both_passes_lose)
{
    fixture->costs.has_split = false;
    for (int layer = 0; layer < FIXTURE_LAYERS; layer++) {
        fixture->backward_input_ns[layer] += fixture->backward_weight_ns[layer];
        fixture->backward_weight_ns[layer] = 0;
    }

    const bal_layer_costs costs =
        fixture_costs(fixture_open("{'case':'mod','capacity_ratio':0.25}"), 0, 0);

    assert_int_equal(costs.backward_input_ns[2], 425 + 200);
    assert_int_equal(costs.backward_weight_ns[2], 0);
    assert_false(costs.has_split);
}

FIXTURE_TEST(an_error_of_the_predictor_varies_by_microbatch_and_replica)
{
    double sum = 0;
    double squares = 0;
    enum { ITERATIONS = 2000, SAMPLES = ITERATIONS * FIXTURE_MICROBATCHES };
    fixture->base.parallel.data = 3;
    fixture->base.iteration_count = ITERATIONS;
    model_dynamism *mod =
        fixture_open("{'case':'mod','capacity_ratio':0.5,'predictor_error_ratio':0.1}");

    assert_int_equal(model_dynamism_source_count(mod), 3);
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        const bal_layer_costs costs = fixture_costs(mod, 2, iteration);
        assert_true(fixture->changed);
        assert_int_equal(costs.microbatch_count, FIXTURE_MICROBATCHES);
        for (int column = 0; column < FIXTURE_MICROBATCHES; column++) {
            const double share =
                (double)costs.backward_weight_ns[2 * FIXTURE_MICROBATCHES + column] / 800;
            sum += share;
            squares += share * share;
            assert_int_equal(costs.forward_ns[FIXTURE_MICROBATCHES + column], 1000);
        }
    }

    const double mean = sum / SAMPLES;
    assert_true(fabs(mean - 0.5) < 4 * 0.05 / sqrt(SAMPLES));
    assert_close(sqrt(squares / SAMPLES - mean * mean), 0.05, 0.05);
    const bal_layer_costs one = fixture_costs(mod, 0, 7);
    const int64_t of_one = one.forward_ns[2 * FIXTURE_MICROBATCHES];
    assert_true(of_one != fixture_costs(mod, 1, 7).forward_ns[2 * FIXTURE_MICROBATCHES]);
}

/// Iterations [0, count) of a case under a seed; the numbers were found on x86-64.
static const struct {
    const char *text; // without its end and seed
    int count;
    uint64_t checksum; // of seed 7
} drawn[] = {
    {"{'case':'mod','predictor_error_ratio':0.2", 500, 0x148f967cd58cd3e8},
    {"{'case':'freezing','interval':1,'jitter':0.3", 1000, 0xf5ded55abb862e5c},
    {"{'case':'pruning','start_iteration':10,'end_iteration':20,'interval':1,"
     "'kernel_density':[0.1,0.5],'kernel_time_ratio':[0.5,1.5]",
     30, 0x81f14868f5389d7f},
};

FIXTURE_TEST(a_seed_gives_the_same_bytes_everywhere_and_in_any_order)
{
    for (size_t row = 0; row < sizeof drawn / sizeof drawn[0]; row++) {
        char seven[256];
        char eight[256];
        snprintf(seven, sizeof seven, "%s,'seed':7}", drawn[row].text);
        snprintf(eight, sizeof eight, "%s,'seed':8}", drawn[row].text);
        const uint64_t checksum = fixture_checksum(fixture_open(seven), 0, drawn[row].count);
        assert_true(checksum != fixture_checksum(fixture_open(eight), 0, drawn[row].count));
        assert_int_equal(checksum, drawn[row].checksum);
        fixture_any_order(seven, 30);
    }
}

FIXTURE_TEST(iterations_of_every_case_have_the_same_bytes_in_any_order)
{
    static const char *const texts[] = {
        "{'case':'mod'}",
        "{'case':'early-exit','interval':5}",
        "{'case':'freezing','schedule':'list','freeze_at':[10,20],'cached_prefix':true,"
        "'cache_delay':3}",
        "{'case':'freezing','schedule':'list','freeze_at':[10,20],'interval':7,"
        "'reference_time_ratio':1}",
        "{'case':'pruning','start_iteration':10,'end_iteration':14,'interval':2,"
        "'load_model':'published'}",
        "{'case':'sparse-attention','kept':[0.5],'per_microbatch':true}",
    };
    fixture->base.parallel.data = 2;
    for (size_t text = 0; text < sizeof texts / sizeof texts[0]; text++) {
        fixture_any_order(texts[text], 40);
    }
}

FIXTURE_TEST(what_does_not_change_is_announced_once)
{
    model_dynamism *mod = fixture_open("{'case':'mod'}");

    assert_true(model_dynamism_source(mod, 0).announces_changes);
    assert_int_equal(model_dynamism_source(mod, 0).iteration_count, 1000);
    fixture_costs(mod, 0, 0);
    assert_true(fixture->changed);
    fixture_costs(mod, 0, 1);
    assert_false(fixture->changed);
    fixture_costs(mod, 0, 1);
    assert_false(fixture->changed);
    fixture_costs(mod, 0, 0);
    assert_true(fixture->changed);
}

FIXTURE_TEST(every_parameter_is_listed_with_its_origin)
{
    model_dynamism *mod = fixture_open("{'case':'mod','every':3}");

    const model_assumption *every = fixture_assumption(mod, "dynamism.every");
    const model_assumption *capacity = fixture_assumption(mod, "dynamism.capacity_ratio");
    const model_assumption *error = fixture_assumption(mod, "dynamism.predictor_error_ratio");

    assert_string_equal(every->value, "3");
    assert_int_equal(every->origin.kind, MODEL_ORIGIN_GIVEN);
    assert_string_equal(capacity->value, "0.125");
    assert_int_equal(capacity->origin.kind, MODEL_ORIGIN_PRESET);
    assert_int_equal(error->origin.kind, MODEL_ORIGIN_ASSUMED);
    assert_string_equal(fixture_assumption(mod, "dynamism.seed")->value, "1");
    assert_string_equal(fixture_assumption(mod, "dynamism.load_model")->value, "physical");
    assert_string_equal(model_dynamism_name(mod), "mod");
}

FIXTURE_TEST(what_is_wrong_is_named)
{
    fixture_refused("{}", STATUS_FORMAT, "study.json: case: missing; needs a string");
    fixture_refused("{'case':'mood'}", STATUS_FORMAT,
                    "study.json: case: unknown case 'mood'; did you mean 'mod'?");
    fixture_refused("{'case':'mod','capacity_ration':1}", STATUS_FORMAT,
                    "study.json: unknown key 'capacity_ration'; did you mean 'capacity_ratio'?");
    fixture_refused("{'case':'mod','capacity_ratio':1.5}", STATUS_FORMAT,
                    "study.json: capacity_ratio: 1.5 is outside [0, 1]");
    fixture_refused("{'case':'mod','load_model':'fysical'}", STATUS_FORMAT,
                    "study.json: load_model: unknown load_model 'fysical'; did you mean "
                    "'physical'?");
    fixture_refused("{'case':'mod','seed':-1}", STATUS_FORMAT,
                    "study.json: seed: -1 is outside [0, 9007199254740992]");
    fixture_refused("{'case':'mod','first_routed':4}", STATUS_INVALID,
                    "case 'mod': first_routed 4 leaves none of the 4 transformer layers to "
                    "route");
    fixture->base.transformer_end = 1;
    fixture_refused("{'case':'mod'}", STATUS_INVALID,
                    "case 'mod' needs a transformer layer; the costs have none");
}

FIXTURE_TEST(a_base_of_other_microbatches_is_refused)
{
    bal_layer_costs costs;
    fixture->costs.microbatch_count = 3;
    const bal_cost_source source = model_dynamism_source(fixture_open("{'case':'mod'}"), 0);

    assert_fails(source.costs_at(source.context, 5, &costs, &fixture->changed, &why),
                 STATUS_INVALID,
                 "case 'mod': iteration 5 of the costs has 3 microbatches, "
                 "the training 4");
}

FIXTURE_TEST(costs_that_do_not_fit_64_bits_are_refused)
{
    bal_layer_costs costs;
    fixture->backward_input_ns[2] = INT64_MAX / 2;
    const bal_cost_source source =
        model_dynamism_source(fixture_open("{'case':'mod','capacity_ratio':1}"), 0);

    assert_fails(source.costs_at(source.context, 3, &costs, &fixture->changed, &why),
                 STATUS_INVALID,
                 "case 'mod': backward_input_ns of layer 2 in iteration 3: "
                 "too large to be counted in 64 bits");
}

FIXTURE_TEST(shares_are_taken_from_the_model)
{
    fixture->shares.layer_count = 5;
    fixture_refused("{'case':'mod'}", STATUS_INVALID,
                    "the model has 5 layers with embedding and head, the costs that case 'mod' "
                    "is put over have 6");
    fixture->base.shares = NULL;
    fixture_refused("{'case':'mod'}", STATUS_INVALID,
                    "study.json: case 'mod' touches parts of a layer, and a trace does not tell "
                    "them apart: name the model that was traced, trace.model");
    fixture_open("{'case':'mod','load_model':'published'}");
}

TEST(normal_draws_have_the_moments_of_a_normal_distribution)
{
    enum { DRAWS = 200000 };
    rng random = rng_init(5, 0);
    double moments[5] = {0};
    for (int draw = 0; draw < DRAWS; draw++) {
        const double value = rng_normal(&random);
        double power = 1;
        for (int moment = 0; moment < 5; moment++) {
            moments[moment] += power / DRAWS;
            power *= value;
        }
    }

    assert_true(fabs(moments[1]) < 0.01);
    assert_true(fabs(moments[2] - 1) < 0.01);
    assert_true(fabs(moments[3]) < 0.03);
    assert_true(fabs(moments[4] - 2.9) < 0.05); // of twelve uniform numbers; 3 of a true normal
}

TEST(the_portable_exponential_is_as_good_as_that_of_libm)
{
    rng random = rng_init(6, 0);
    for (int draw = 0; draw < 10000; draw++) {
        const double x = 1400 * rng_unit(&random) - 700;
        assert_close(rng_portable_exp(x), exp(x), 2e-15);
        assert_close(rng_portable_exp(x / 1000), exp(x / 1000), 2e-15);
    }
    assert_true(rng_portable_exp(0) == 1);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
