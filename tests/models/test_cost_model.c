/// cost_model: both sides of the roofline, a layer's times worked out by hand, what is refused, and
/// the list of assumptions.
#include "base/rng.h"
#include "models/cost_model.h"
#include "models/model_source.h"
#include "tests/assert_close.h"

#include <math.h>
#include <string.h>

typedef struct fixture {
    arena *memory;
    model_config gpt;
    model_hardware h100;
} fixture;

static int prepare(void **state)
{
    static fixture prepared;
    prepared.memory = arena_create(1 << 16);
    assert_int_equal(model_config_open("gpt-dynmo", prepared.memory, &prepared.gpt, NULL),
                     STATUS_OK);
    assert_int_equal(model_hardware_open("h100-sxm", prepared.memory, &prepared.h100, NULL),
                     STATUS_OK);
    *state = &prepared;
    return 0;
}

static int clean(void **state)
{
    arena_destroy(((fixture *)*state)->memory);
    return 0;
}

static model_costs build(const fixture *with, const model_training *training)
{
    model_costs costs;
    error_message err = {0};
    if (model_costs_build(&with->gpt, &with->h100, training, "gpt", "h100", with->memory, &costs,
                          &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    return costs;
}

static void the_slower_side_of_the_roofline_counts(void **state)
{
    (void)state;
    assert_int_equal(model_roofline_ns((model_work){3000, 1999}, 2e9, 1e9), 1999);
    assert_int_equal(model_roofline_ns((model_work){5000, 1999}, 2e9, 1e9), 2500);
    assert_int_equal(model_roofline_ns((model_work){4000, 2000}, 2e9, 1e9), 2000);
    assert_int_equal(model_roofline_ns((model_work){0, 7}, 2e9, 1e10), 1);
    assert_int_equal(model_roofline_ns((model_work){0, 0}, 2e9, 1e9), 0);
    assert_true(model_roofline_ns((model_work){INT64_MAX, 0}, 1e18, 1e18) == INT64_MAX / 4);
    assert_true(model_roofline_ns((model_work){1, INT64_MAX}, 1e18, 1e18) == INT64_MAX / 4);
    assert_true(model_roofline_ns((model_work){INT64_MAX / 2, 0}, 1, 1) == INT64_MAX / 4);
}

static void a_layer_takes_the_sum_of_its_parts(void **state)
{
    const fixture *with = *state;
    const model_training training = {
        .sequence_length = 2048, .microbatch_size = 2, .attention = "unfused"};
    const double gemm = 989e12 * 0.65;
    const double bytes_per_s = 3350e9 * 0.85;

    const model_costs costs = build(with, &training);

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

static void embedding_and_head_are_pinned_layers(void **state)
{
    const fixture *with = *state;
    const model_training training = {.sequence_length = 2048, .microbatch_size = 2};

    const model_costs costs = build(with, &training);

    const bal_layer_costs *layers = &costs.layers;
    assert_int_equal(layers->layer_count, 26);
    assert_int_equal(layers->microbatch_count, 1);
    assert_true(layers->embedding && layers->head && layers->has_split);
    assert_int_equal(layers->backward_input_ns[0], 0);
    assert_true(layers->forward_ns[0] > 0 && layers->backward_weight_ns[0] > 0);
    assert_true(layers->forward_ns[25] > layers->forward_ns[24]);
    assert_int_equal(layers->message_bytes[0], 8388608);
    assert_int_equal(layers->message_bytes[24], 8388608);
    assert_int_equal(layers->message_bytes[25], 0);
    assert_int_equal(layers->parameters[0], (50257 + 2048) * 1024);
    assert_int_equal(layers->parameters[12], 12596224);
    assert_int_equal(layers->parameters[25], 50257 * 1024 + 2048);
    assert_int_equal(layers->state_bytes[12], 12596224 * 18);
    assert_int_equal(layers->activation_bytes[12], INT64_C(34) * 4096 * 1024);
    assert_int_equal(layers->gradient_bytes[12], INT64_C(32) * 4096 * 1024);
    assert_int_equal(costs.forward_flop[12], INT64_C(4096) * 1024 * (24 * 1024 + 2 * 2048));
    assert_int_equal(costs.backward_weight_flop[25], INT64_C(2) * 4096 * 1024 * 50257);
    // Tied: the head's copy is held and updated, but published totals count it once.
    int64_t held = 0;
    for (int layer = 0; layer < 26; layer++) {
        held += layers->parameters[layer];
    }
    assert_int_equal(held - costs.total_parameters, 50257 * 1024);
}

static const model_assumption *find(const model_costs *costs, const char *name)
{
    for (int row = 0; row < costs->assumption_count; row++) {
        if (strcmp(costs->assumptions[row].name, name) == 0) return &costs->assumptions[row];
    }
    fail_msg("no assumption '%s'", name);
    return NULL;
}

static void what_is_not_given_is_listed_as_assumed(void **state)
{
    const fixture *with = *state;
    const model_training nothing = {0};
    const model_training everything = {.sequence_length = 100,
                                       .microbatch_size = 3,
                                       .dtype = MODEL_DTYPE_FLOAT16,
                                       .attention = "unfused",
                                       .state_bytes_per_parameter = 2};
    const char *const choices[] = {"sequence_length", "microbatch_size", "dtype", "attention",
                                   "state_bytes_per_parameter"};

    const model_costs defaults = build(with, &nothing);
    const model_costs given = build(with, &everything);

    for (int choice = 0; choice < 5; choice++) {
        assert_int_equal(find(&defaults, choices[choice])->origin.kind, MODEL_ORIGIN_ASSUMED);
        assert_int_equal(find(&given, choices[choice])->origin.kind, MODEL_ORIGIN_GIVEN);
    }
    assert_string_equal(find(&defaults, "sequence_length")->value, "2048");
    assert_string_equal(find(&defaults, "state_bytes_per_parameter")->value, "18");
    assert_string_equal(find(&given, "state_bytes_per_parameter")->value, "2");
    assert_string_equal(find(&given, "microbatch_size")->value, "3");
    assert_int_equal(find(&given, "flop_per_s")->origin.kind, MODEL_ORIGIN_PRESET);
    assert_string_equal(find(&given, "flop_per_s")->value, "989 TFLOP/s");
    assert_int_equal(find(&given, "efficiency.gemm")->origin.kind, MODEL_ORIGIN_ASSUMED);
    assert_string_equal(find(&given, "hardware")->origin.text, "h100");
    assert_int_equal(given.layers.state_bytes[1], 12596224 * 2);
}

static void short_models_and_experts_are_noted(void **state)
{
    const fixture *with = *state;
    const model_training nothing = {0};
    model_costs costs;

    assert_int_equal(
        model_costs_from_files("gpt2", "a100-sxm-80gb", &nothing, with->memory, &costs, NULL),
        STATUS_OK);
    assert_string_equal(find(&costs, "sequence_length")->value, "1024");

    assert_int_equal(
        model_costs_from_files("mixtral-8x7b", "b200", &nothing, with->memory, &costs, NULL),
        STATUS_OK);
    assert_string_equal(find(&costs, "routing")->value,
                        "2 of 8 experts per token, all experts alike, none dropped");
    assert_int_equal(costs.total_parameters, 46702792704);
    assert_int_equal(costs.active_parameters, 12879925248);

    model_config predicting = with->gpt;
    predicting.prediction_layer_count = 1;
    assert_int_equal(
        model_costs_build(&predicting, &with->h100, &nothing, "c", "h", with->memory, &costs, NULL),
        STATUS_OK);
    assert_string_equal(find(&costs, "prediction layers")->value,
                        "1 multi-token-prediction layers left out");
}

static void assert_refused(const fixture *with, const model_config *config,
                           const model_training *training, const char *message)
{
    model_costs costs = {.assumption_count = -7};
    error_message err = {0};

    assert_int_equal(
        model_costs_build(config, &with->h100, training, "c", "h", with->memory, &costs, &err),
        STATUS_INVALID);

    assert_string_equal(err.message, message);
    assert_int_equal(costs.assumption_count, -7);
}

static void training_outside_its_limits_is_refused(void **state)
{
    const fixture *with = *state;
    const model_config *gpt = &with->gpt;
    model_config endless = with->gpt;
    endless.position_count = 0;

    assert_refused(with, gpt, &(model_training){.sequence_length = 2049},
                   "sequence_length 2049 exceeds the 2048 positions of the model");
    assert_refused(with, gpt, &(model_training){.sequence_length = -1},
                   "sequence_length -1 is outside [1, 16777216]");
    assert_refused(with, gpt, &(model_training){.microbatch_size = 65537},
                   "microbatch_size 65537 is outside [1, 65536]");
    assert_refused(with, gpt, &(model_training){.state_bytes_per_parameter = 1025},
                   "state_bytes_per_parameter 1025 is outside [1, 1024]");
    assert_refused(with, gpt, &(model_training){.attention = "sdpa"},
                   "attention 'sdpa' is neither flash nor unfused");
    fixture narrow = *with;
    narrow.h100.flop_per_s[MODEL_DTYPE_FLOAT32] = 0;
    assert_refused(&narrow, gpt, &(model_training){.dtype = MODEL_DTYPE_FLOAT32},
                   "hardware 'h100-sxm' has no flop_per_s for dtype float32");
    assert_refused(with, &endless,
                   &(model_training){.sequence_length = 1 << 24, .microbatch_size = 1 << 16},
                   "forward_ns of layer 1: too large to be counted in 64 bits");
}

static void files_that_cannot_be_read_are_named(void **state)
{
    const fixture *with = *state;
    const model_training nothing = {0};
    model_costs costs;
    error_message err = {0};

    assert_int_equal(model_costs_from_files("gpt2", "h100", &nothing, with->memory, &costs, &err),
                     STATUS_IO);
    assert_non_null(strstr(err.message, "no shipped hardware is named 'h100'"));
    assert_int_equal(model_costs_from_files("nowhere/config.json", "h100-sxm", &nothing,
                                            with->memory, &costs, &err),
                     STATUS_IO);
    assert_non_null(strstr(err.message, "nowhere/config.json"));
}

/// F, B and W of all layers.
static int64_t total_ns(const fixture *with, const model_training *training)
{
    const model_costs costs = build(with, training);
    int64_t sum = 0;
    for (int layer = 0; layer < costs.layers.layer_count; layer++) {
        sum += costs.layers.forward_ns[layer] + costs.layers.backward_input_ns[layer] +
               costs.layers.backward_weight_ns[layer];
    }
    return sum;
}

static void faster_hardware_and_less_work_never_take_longer(void **state)
{
    const fixture *with = *state;
    const uint64_t seed = 3;
    rng random = rng_init(seed, 0);
    for (int round = 0; round < 100; round++) {
        const model_training training = {.sequence_length = (int)rng_between(&random, 1, 2047),
                                         .microbatch_size = (int)rng_between(&random, 1, 16),
                                         .attention = round % 2 == 0 ? "flash" : "unfused"};
        model_training longer = training;
        longer.sequence_length++;
        const int64_t here = total_ns(with, &training);
        assert_true(total_ns(with, &longer) >= here);

        fixture faster = *with;
        faster.h100.flop_per_s[MODEL_DTYPE_BFLOAT16] += rng_between(&random, 0, 1000000000000000);
        assert_true(total_ns(&faster, &training) <= here);
        faster = *with;
        faster.h100.memory_bytes_per_s += rng_between(&random, 0, 5000000000000);
        assert_true(total_ns(&faster, &training) <= here);
        faster = *with;
        faster.h100.gemm_efficiency = 0.9;
        assert_true(total_ns(&faster, &training) <= here);
    }
}

static void the_source_gives_the_same_costs_in_every_iteration(void **state)
{
    const fixture *with = *state;
    const model_training nothing = {0};
    const model_costs costs = build(with, &nothing);
    model_source memory;
    bal_layer_costs asked = {0};
    bool changed = false;

    const bal_cost_source source = model_source_init(&memory, &costs);

    assert_int_equal(source.layer_count, 26);
    assert_int_equal(source.iteration_count, 1);
    assert_int_equal(source.costs_at(source.context, 7, &asked, &changed, NULL), STATUS_OK);
    assert_true(changed);
    assert_ptr_equal(asked.forward_ns, costs.layers.forward_ns);
    assert_int_equal(source.costs_at(source.context, 0, &asked, &changed, NULL), STATUS_OK);
    assert_false(changed);
    assert_ptr_equal(asked.forward_ns, costs.layers.forward_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slower_side_of_the_roofline_counts),
        cmocka_unit_test(a_layer_takes_the_sum_of_its_parts),
        cmocka_unit_test(embedding_and_head_are_pinned_layers),
        cmocka_unit_test(what_is_not_given_is_listed_as_assumed),
        cmocka_unit_test(short_models_and_experts_are_noted),
        cmocka_unit_test(training_outside_its_limits_is_refused),
        cmocka_unit_test(files_that_cannot_be_read_are_named),
        cmocka_unit_test(faster_hardware_and_less_work_never_take_longer),
        cmocka_unit_test(the_source_gives_the_same_costs_in_every_iteration),
    };
    return cmocka_run_group_tests(tests, prepare, clean);
}
