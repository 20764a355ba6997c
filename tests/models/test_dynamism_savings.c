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

static model_costs *build(const model_training *training)
{
    model_config config;
    model_hardware hardware;
    model_costs *costs = arena_array(fixture->memory, 1, sizeof *costs);
    assert_ok(model_config_open("gpt-dynmo", NULL, fixture->memory, &config, NULL));
    assert_ok(model_hardware_open("h100-dynmo", NULL, fixture->memory, &hardware, NULL));
    require(model_costs_build(&config, &hardware, training, "gpt-dynmo", "h100-dynmo",
                              fixture->memory, costs, &why));
    return costs;
}

/// Of a case in its last iteration, over the costs of a training without it.
static saving saving_of(model_dtype dtype, const char *attention, const char *text)
{
    const model_training training = {
        .sequence_length = 2048, .microbatch_size = 2, .dtype = dtype, .attention = attention};
    model_costs *costs = build(&training);
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
    const bal_layer_costs dynamic = fixture_costs(fixture_open(text), 0, LAST);
    return (saving){
        .body = time_of(&costs->layers, 1, BLOCKS + 1) / time_of(&dynamic, 1, BLOCKS + 1),
        .whole = time_of(&costs->layers, 0, BLOCKS + 2) / time_of(&dynamic, 0, BLOCKS + 2),
    };
}

FIXTURE_TEST(cases_save_what_the_table_says)
{
    static const struct {
        model_dtype dtype;
        const char *attention, *text;
        saving saving;
    } cases[] = {
        // Pruning saves in 32 bits only, freezing leaves the forward pass.
        {MODEL_DTYPE_BFLOAT16, "flash", "{'case':'pruning','sigma_spread':0}", {1, 1}},
        {MODEL_DTYPE_FLOAT32, "flash", "{'case':'pruning','sigma_spread':0}", {1.51, 1.42}},
        {MODEL_DTYPE_BFLOAT16,
         "flash",
         "{'case':'freezing','schedule':'interval','start_iteration':0,'interval':1,"
         "'max_frozen':24}",
         {2.97, 2.33}},
        // Sparse attention saves what the core takes.
        {MODEL_DTYPE_BFLOAT16,
         "flash",
         "{'case':'sparse-attention','kept':[0],'sorting':false}",
         {1.15, 1.12}},
        {MODEL_DTYPE_BFLOAT16, "flash", "{'case':'sparse-attention'}", {0.98, 0.98}},
        {MODEL_DTYPE_BFLOAT16,
         "unfused",
         "{'case':'sparse-attention','kept':[0],'sorting':false}",
         {5.59, 4.32}},
        {MODEL_DTYPE_BFLOAT16, "unfused", "{'case':'sparse-attention'}", {4.76, 3.84}},
        // Early exit keeps the layers in front of the first exit.
        {MODEL_DTYPE_BFLOAT16,
         "flash",
         "{'case':'early-exit','keep_initial':0,'keep_final':0,'classifier':'none'}",
         {2.73, 2.15}},
        {MODEL_DTYPE_BFLOAT16,
         "flash",
         "{'case':'early-exit','keep_initial':0,'keep_final':0,'classifier':'none',"
         "'attention_keys':'survivors'}",
         {3.43, 2.48}},
        {MODEL_DTYPE_BFLOAT16, "flash", "{'case':'early-exit'}", {1.53, 1.41}},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        const saving found = saving_of(cases[each].dtype, cases[each].attention, cases[each].text);
        assert_true(fabs(found.body - cases[each].saving.body) < 0.005);
        assert_true(fabs(found.whole - cases[each].saving.whole) < 0.005);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
