/// dynamism, case sparse-attention: what stated and hashed shares do to the core, by hand over a
/// base of round numbers and over the paper's GPT, and what is refused.
#include "models/cost/cost_model.h"
#include "tests/models/dynamism_fixture.h"

FIXTURE_TEST(only_the_core_shrinks)
{
    model_dynamism *sparse = fixture_open("{'case':'sparse-attention','kept':[0.25]}");

    const bal_layer_costs costs = fixture_costs(sparse, 0, 3);

    // The core is 0.1 of F and 0.2 of B.
    for (int layer = 1; layer < 5; layer++) {
        fixture_times(&costs, layer, 925, 1700, 800);
        assert_int_equal(costs.activation_bytes[layer], 1600);
        assert_int_equal(costs.message_bytes[layer], 1600);
        assert_int_equal(costs.state_bytes[layer], 1600);
    }
    assert_int_equal(costs.forward_ns[0], 70);
    assert_int_equal(costs.forward_ns[5], 70);
}

/// The paper's GPT on an H100: the base, and the costs it was made of.
static model_costs put_over_gpt(const char *attention)
{
    const model_training training = {
        .sequence_length = 2048, .microbatch_size = 2, .attention = attention};
    model_costs *costs = arena_array(fixture->memory, 1, sizeof *costs);
    model_source *source = arena_array(fixture->memory, 1, sizeof *source);
    model_layer_shares *shares = arena_array(fixture->memory, 1, sizeof *shares);
    assert_ok(model_costs_from_files("gpt-dynmo", "models/plain-h100.json", &training,
                                     fixture->memory, costs, NULL));
    model_layer_shares_of_costs(costs, fixture->memory, shares);
    fixture->base = (model_dynamism_base){.source = model_source_init(source, costs),
                                          .shares = shares,
                                          .config = &costs->config,
                                          .shape = &costs->shape,
                                          .hardware = &costs->hardware,
                                          .iteration_count = 10000,
                                          .microbatch_count = 32,
                                          .transformer_first = 1,
                                          .transformer_end = 25};
    return *costs;
}

FIXTURE_TEST(keeping_every_tile_of_a_flash_model_changes_nothing)
{
    const model_costs gpt = put_over_gpt("flash");
    model_dynamism *sparse = fixture_open("{'case':'sparse-attention','kept':[1],'sorting':false}");

    const bal_layer_costs costs = fixture_costs(sparse, 0, 0);

    for (int layer = 0; layer < 26; layer++) {
        assert_int_equal(costs.forward_ns[layer], gpt.layers.forward_ns[layer]);
        assert_int_equal(costs.backward_input_ns[layer], gpt.layers.backward_input_ns[layer]);
        assert_int_equal(costs.activation_bytes[layer], gpt.layers.activation_bytes[layer]);
    }
}

FIXTURE_TEST(an_unfused_model_gets_a_flash_kernel)
{
    const model_costs flash = put_over_gpt("flash");
    put_over_gpt("unfused");
    model_dynamism *sparse = fixture_open("{'case':'sparse-attention','kept':[1],'sorting':false}");

    const bal_layer_costs costs = fixture_costs(sparse, 0, 0);

    for (int layer = 1; layer < 25; layer++) {
        assert_close((double)costs.forward_ns[layer], (double)flash.layers.forward_ns[layer], 1e-4);
        assert_close((double)costs.backward_input_ns[layer],
                     (double)flash.layers.backward_input_ns[layer], 1e-4);
        assert_int_equal(costs.activation_bytes[layer], flash.layers.activation_bytes[layer]);
    }
}

FIXTURE_TEST(vectors_are_read_and_written_whatever_is_kept)
{
    const model_costs gpt = put_over_gpt("flash");
    model_dynamism *nothing =
        fixture_open("{'case':'sparse-attention','kept':[0],'sorting':false}");
    const model_work core =
        model_layer_work_of(&gpt.config, &gpt.shape, 0, MODEL_PASS_FORWARD).attention;
    const double core_ns = (double)core.flop / (989e12 * 0.45) * 1e9;
    const double vectors_ns = (double)core.bytes / (3350e9 * 0.85) * 1e9;

    const bal_layer_costs costs = fixture_costs(nothing, 0, 0);

    assert_true(vectors_ns < core_ns);
    assert_close((double)costs.forward_ns[1],
                 (double)gpt.layers.forward_ns[1] - core_ns + vectors_ns, 1e-4);
}

FIXTURE_TEST(sorting_moves_what_the_released_code_moves)
{
    const model_costs gpt = put_over_gpt("flash");
    const double bytes_per_ns = 3.35 * 0.85 * 1000;

    const bal_layer_costs costs =
        fixture_costs(fixture_open("{'case':'sparse-attention','kept':[1]}"), 0, 0);

    // Of 4096 tokens. F: 2 h numbers hashed, 3 h gathered, h scattered into zeros, 64 heads sorted.
    // B: h gathered, 3 h added into zeros.
    const double forward = 4096.0 * (2 * 1024 * (2 + 6 + 3) + 64 * 16 * 16);
    const double backward = 4096.0 * 2 * 1024 * (2 + 12);
    assert_close((double)(costs.forward_ns[1] - gpt.layers.forward_ns[1]), forward / bytes_per_ns,
                 1e-4);
    assert_close((double)(costs.backward_input_ns[1] - gpt.layers.backward_input_ns[1]),
                 backward / bytes_per_ns, 1e-4);
    assert_int_equal(costs.forward_ns[0], gpt.layers.forward_ns[0]);
    assert_int_equal(costs.forward_ns[25], gpt.layers.forward_ns[25]);
}

FIXTURE_TEST(hashed_shares_differ_by_layer_and_iteration)
{
    put_over_gpt("flash");
    model_dynamism *sparse = fixture_open("{'case':'sparse-attention','seed':3}");

    int64_t load_ns[2][26];
    for (int iteration = 0; iteration < 2; iteration++) {
        fixture_costs(sparse, 0, iteration);
        assert_true(fixture->changed);
        assert_ok(model_dynamism_published_load(sparse, iteration, 0, load_ns[iteration], NULL));
    }

    int differing_layers = 0;
    int differing_iterations = 0;
    for (int layer = 2; layer < 25; layer++) {
        differing_layers += load_ns[0][layer] != load_ns[0][1];
        differing_iterations += load_ns[0][layer] != load_ns[1][layer];
    }
    assert_true(differing_layers > 15);
    assert_true(differing_iterations > 15);
}

FIXTURE_TEST(the_same_seed_gives_the_same_bytes_everywhere)
{
    put_over_gpt("flash");
    const char *seven = "{'case':'sparse-attention','seed':7}";
    const char *eight = "{'case':'sparse-attention','seed':8}";

    const uint64_t checksum = fixture_checksum(fixture_open(seven), 0, 200);

    assert_true(checksum == fixture_checksum(fixture_open(seven), 0, 200));
    assert_true(checksum != fixture_checksum(fixture_open(eight), 0, 200));
    assert_int_equal(checksum, UINT64_C(0x73b23dc38f53a2dc));
}

FIXTURE_TEST(what_is_wrong_is_named)
{
    fixture_refused("{'case':'sparse-attention','kept':[1.25]}", STATUS_FORMAT,
                    "study.json: kept[0]: 1.25 is outside [0, 1]");
    fixture_refused("{'case':'sparse-attention','kept':[]}", STATUS_FORMAT,
                    "study.json: kept: not an array of 1 to 4 numbers");
    fixture_refused("{'case':'sparse-attention','kept':[1,1]}", STATUS_INVALID,
                    "study.json: kept: 2 numbers for 4 transformer layers");
    fixture_unknown("{'case':'sparse-attention','kept':[1],'skew':1}", "skew");
    fixture_refused("{'case':'sparse-attention'}", STATUS_INVALID,
                    "case 'sparse-attention': without a model the sequence length is not "
                    "known: name the model beside the trace, or state \"kept\"");
    put_over_gpt("flash");
    fixture_refused("{'case':'sparse-attention','buckets':0}", STATUS_FORMAT,
                    "study.json: buckets: 0 is outside [1, 256]");
    fixture_refused("{'case':'sparse-attention','skew':-1}", STATUS_FORMAT,
                    "study.json: skew: -1 is outside [0, 5]");
    model_config windowed = *fixture->base.config;
    windowed.sliding_window = 512;
    fixture->base.config = &windowed;
    fixture_refused("{'case':'sparse-attention'}", STATUS_INVALID,
                    "case 'sparse-attention': a sliding window of 512 keys leaves other tiles "
                    "than causal attention does: state \"kept\"");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
