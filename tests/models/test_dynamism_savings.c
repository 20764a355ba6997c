/// The most that each case can save over the paper's GPT, by the cost model: the table "What the
/// cases can save" of models/DYNAMISM.md.
#include "models/cost/cost_model.h"
#include "tests/models/dynamism_fixture.h"

enum { BLOCKS = 24, LAST = 9999 };

typedef struct saving {
    double body;  // dense over dynamic time of the transformer layers
    double whole; // the same with embedding and head
} saving;

static double time_of(const bal_layer_costs *costs, int first, int end)
{
    double ns = 0;
    for (int layer = first; layer < end; layer++) {
        ns += (double)(costs->forward_ns[layer] + costs->backward_input_ns[layer] +
                       costs->backward_weight_ns[layer]);
    }
    return ns;
}

static model_costs *build(dynamism_fixture *fixture, const model_training *training)
{
    model_config config;
    model_hardware hardware;
    error_message err = {0};
    model_costs *costs = arena_array(fixture->memory, 1, sizeof *costs);
    assert_ok(model_config_open("gpt-dynmo", fixture->memory, &config, NULL));
    assert_ok(model_hardware_open("h100-dynmo", fixture->memory, &hardware, NULL));
    require(model_costs_build(&config, &hardware, training, "gpt-dynmo", "h100-dynmo",
                              fixture->memory, costs, &err),
            &err);
    return costs;
}

/// Of a case in its last iteration, over the costs of a training without it.
static saving saving_of(dynamism_fixture *fixture, model_dtype dtype, const char *attention,
                        const char *text)
{
    const model_training training = {
        .sequence_length = 2048, .microbatch_size = 2, .dtype = dtype, .attention = attention};
    model_costs *costs = build(fixture, &training);
    model_source *source = arena_array(fixture->memory, 1, sizeof *source);
    model_layer_shares *shares = arena_array(fixture->memory, 1, sizeof *shares);
    model_layer_shares_of_costs(costs, fixture->memory, shares);
    fixture->base = (model_dynamism_base){.source = model_source_init(source, costs),
                                          .shares = shares,
                                          .config = &costs->config,
                                          .shape = &costs->shape,
                                          .hardware = &costs->hardware,
                                          .iteration_count = LAST + 1,
                                          .microbatch_count = 32,
                                          .transformer_first = 1,
                                          .transformer_end = BLOCKS + 1};
    const bal_layer_costs dynamic = fixture_costs(fixture_open(fixture, text), 0, LAST);
    return (saving){
        .body = time_of(&costs->layers, 1, BLOCKS + 1) / time_of(&dynamic, 1, BLOCKS + 1),
        .whole = time_of(&costs->layers, 0, BLOCKS + 2) / time_of(&dynamic, 0, BLOCKS + 2),
    };
}

static void check_saving(dynamism_fixture *fixture, model_dtype dtype, const char *attention,
                         const char *text, double body, double whole)
{
    const saving found = saving_of(fixture, dtype, attention, text);
    assert_true(fabs(found.body - body) < 0.005);
    assert_true(fabs(found.whole - whole) < 0.005);
}

static void pruning_saves_in_32_bits_only(void **state)
{
    dynamism_fixture *fixture = *state;
    const char *even = "{'case':'pruning','sigma_spread':0}";
    check_saving(fixture, MODEL_DTYPE_BFLOAT16, "flash", even, 1, 1);
    check_saving(fixture, MODEL_DTYPE_FLOAT32, "flash", even, 1.51, 1.42);
}

static void freezing_leaves_the_forward_pass(void **state)
{
    dynamism_fixture *fixture = *state;
    check_saving(fixture, MODEL_DTYPE_BFLOAT16, "flash",
                 "{'case':'freezing','schedule':'interval','start_iteration':0,'interval':1,"
                 "'max_frozen':24}",
                 2.97, 2.33);
}

static void sparse_attention_saves_what_the_core_takes(void **state)
{
    dynamism_fixture *fixture = *state;
    const char *nothing = "{'case':'sparse-attention','kept':[0],'sorting':false}";
    const char *hashed = "{'case':'sparse-attention'}";
    check_saving(fixture, MODEL_DTYPE_BFLOAT16, "flash", nothing, 1.15, 1.12);
    check_saving(fixture, MODEL_DTYPE_BFLOAT16, "flash", hashed, 0.98, 0.98);
    check_saving(fixture, MODEL_DTYPE_BFLOAT16, "unfused", nothing, 5.59, 4.32);
    check_saving(fixture, MODEL_DTYPE_BFLOAT16, "unfused", hashed, 4.76, 3.84);
}

static void early_exit_keeps_the_layers_in_front_of_the_first_exit(void **state)
{
    dynamism_fixture *fixture = *state;
    const char *all = "{'case':'early-exit','keep_initial':0,'keep_final':0,'classifier':'none'}";
    const char *survivors = "{'case':'early-exit','keep_initial':0,'keep_final':0,"
                            "'classifier':'none','attention_keys':'survivors'}";
    const char *stated = "{'case':'early-exit'}";
    check_saving(fixture, MODEL_DTYPE_BFLOAT16, "flash", all, 2.73, 2.15);
    check_saving(fixture, MODEL_DTYPE_BFLOAT16, "flash", survivors, 3.43, 2.48);
    check_saving(fixture, MODEL_DTYPE_BFLOAT16, "flash", stated, 1.53, 1.41);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_prepare, fixture_clean)
        TEST(pruning_saves_in_32_bits_only),
        TEST(freezing_leaves_the_forward_pass),
        TEST(sparse_attention_saves_what_the_core_takes),
        TEST(early_exit_keeps_the_layers_in_front_of_the_first_exit),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
