/// Any bytes as the "dynamism" of a study, over a trace of six layers and over a model: refused
/// with a message, or a case whose costs are within their limits and the same when asked again.
#include "base/arena.h"
#include "base/file.h"
#include "models/cost/cost_model.h"
#include "models/dynamism/dynamism.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <stdlib.h>

enum { TRACE_LAYERS = 6, MICROBATCHES = 3, ITERATIONS = 60 };

static status trace_costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                             error_message *err)
{
    static const int64_t numbers[TRACE_LAYERS] = {10, 1000, 2000, 0, 4000, 70};
    (void)context;
    (void)err;
    *costs = (bal_layer_costs){.layer_count = TRACE_LAYERS,
                               .microbatch_count = 1,
                               .embedding = true,
                               .head = true,
                               .forward_ns = numbers,
                               .backward_input_ns = numbers,
                               .backward_weight_ns = numbers,
                               .parameters = numbers,
                               .state_bytes = numbers,
                               .activation_bytes = numbers,
                               .message_bytes = numbers};
    *changed = iteration == 0;
    return STATUS_OK;
}

static model_dynamism_base base_of_trace(void)
{
    return (model_dynamism_base){
        .source = {.layer_count = TRACE_LAYERS, .iteration_count = 1, .costs_at = trace_costs_at},
        .parallel = {.data = 4, .expert = 2},
        .iteration_count = ITERATIONS,
        .microbatch_count = MICROBATCHES,
        .transformer_first = 1,
        .transformer_end = TRACE_LAYERS - 1};
}

/// What stays between inputs: computing it takes longer than most of them.
typedef struct modelled {
    arena *memory;
    model_costs costs;
    model_source source;
    model_layer_shares shares;
} modelled;

static model_dynamism_base base_of_model(modelled *gpt)
{
    if (gpt->memory == NULL) {
        const model_training training = {.sequence_length = 256};
        gpt->memory = arena_create(1 << 16);
        assert(gpt->memory != NULL);
        const status built = model_costs_from_files("gpt-dynmo", "h100-sxm", &training, gpt->memory,
                                                    &gpt->costs, NULL);
        assert(built == STATUS_OK);
        model_layer_shares_of_costs(&gpt->costs, gpt->memory, &gpt->shares);
    }
    return (model_dynamism_base){.source = model_source_init(&gpt->source, &gpt->costs),
                                 .shares = &gpt->shares,
                                 .config = &gpt->costs.config,
                                 .shape = &gpt->costs.shape,
                                 .hardware = &gpt->costs.hardware,
                                 .parallel = {.data = 2},
                                 .iteration_count = ITERATIONS,
                                 .microbatch_count = MICROBATCHES,
                                 .transformer_first = 1,
                                 .transformer_end = gpt->costs.layers.layer_count - 1};
}

static uint64_t hash_of(const bal_layer_costs *costs)
{
    const size_t cells = (size_t)costs->layer_count * (size_t)costs->microbatch_count;
    const int64_t *const passes[] = {costs->forward_ns, costs->backward_input_ns,
                                     costs->backward_weight_ns};
    uint64_t hash = FILE_HASH_START;
    for (int pass = 0; pass < 3; pass++) {
        for (size_t cell = 0; cell < cells; cell++) {
            assert(passes[pass][cell] >= 0 && passes[pass][cell] <= INT64_MAX / 4);
        }
        hash = file_hash(hash, passes[pass], cells * sizeof(int64_t));
    }
    return hash;
}

/// What else is asked of a case.
static void look(model_dynamism *dynamism, int layer_count)
{
    int64_t *load_ns = memory_array((size_t)layer_count, sizeof *load_ns);
    model_expert_tokens tokens;
    error_message err = {0};
    assert(load_ns != NULL);
    if (model_dynamism_published_load(dynamism, 30, 0, load_ns, &err) != STATUS_OK) {
        assert(err.message[0] != '\0');
    }
    for (int layer = 0; layer < layer_count; layer++) {
        assert(load_ns[layer] >= 0);
    }
    if (model_dynamism_expert_tokens(dynamism, 30, 0, &tokens, &err) == STATUS_OK) {
        for (int cell = 0; cell < tokens.layer_count * tokens.expert_count; cell++) {
            assert(tokens.tokens[cell] >= 0);
        }
    }
    free(load_ns);
}

static void play(model_dynamism *dynamism)
{
    static const int asked[] = {0, 30, 31, 30, 0};
    enum { ASKED = sizeof asked / sizeof asked[0] };
    const int replica = model_dynamism_source_count(dynamism) - 1;
    const bal_cost_source source = model_dynamism_source(dynamism, replica);
    uint64_t hash[ASKED];
    for (int index = 0; index < ASKED; index++) {
        bal_layer_costs costs;
        bool changed = false;
        error_message err = {0};
        if (source.costs_at(source.context, asked[index], &costs, &changed, &err) != STATUS_OK) {
            assert(err.message[0] != '\0');
            return;
        }
        hash[index] = hash_of(&costs);
    }
    assert(hash[1] == hash[3] && hash[0] == hash[4]);
    look(dynamism, source.layer_count);
}

static void open_over(json_value object, const model_dynamism_base *base)
{
    error_message err = {0};
    model_dynamism *dynamism = NULL;
    arena *memory = arena_create(4096);
    assert(memory != NULL);
    if (model_dynamism_open(object, base, memory, &dynamism, &err) == STATUS_OK) {
        play(dynamism);
    } else {
        assert(err.message[0] != '\0' && dynamism == NULL);
    }
    arena_destroy(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static modelled gpt;
    json_document *document = NULL;
    error_message err = {0};
    if (json_open_bytes("input", (const char *)bytes, count, &document, &err) != STATUS_OK) {
        return 0;
    }
    const json_value root = json_root(document);
    // "counts" names files to open, whichever the bytes say.
    if (json_is_object(root) && json_is_missing(json_member(root, "counts"))) {
        const model_dynamism_base trace = base_of_trace();
        const model_dynamism_base model = base_of_model(&gpt);
        open_over(root, &trace);
        open_over(root, &model);
    }
    json_close(document);
    return 0;
}
