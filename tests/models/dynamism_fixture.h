/// What tests of dynamism share: a base of round numbers whose parts are known, a study's object
/// from text, and a checksum over many iterations.
#pragma once

#include "base/file.h"
#include "models/dynamism/dynamism.h"
#include "tests/test.h"

#include <string.h>

enum { FIXTURE_LAYERS = 6, FIXTURE_MICROBATCHES = 4 };

/// Embedding, four transformer layers, head. F is 1000 ns (projection 300, core 100, MLP 500,
/// elementwise 100), B 2000 ns (600, 400, 800, 200), W 800 ns (300, 0, 500, 0).
typedef struct dynamism_fixture {
    arena *memory;
    bal_layer_costs costs;
    bool was_asked;
    bool changed; // whether costs have, as fixture_costs was told last
    int64_t forward_ns[FIXTURE_LAYERS];
    int64_t backward_input_ns[FIXTURE_LAYERS];
    int64_t backward_weight_ns[FIXTURE_LAYERS];
    int64_t bytes[FIXTURE_LAYERS]; // of everything
    double share[MODEL_PASS_COUNT][MODEL_PART_COUNT][FIXTURE_LAYERS];
    double weight_of_backward[FIXTURE_LAYERS];
    model_layer_shares shares;
    model_dynamism_base base;
    json_document *documents[64];
    int document_count;
} dynamism_fixture;

static dynamism_fixture the_fixture;
static dynamism_fixture *const fixture = &the_fixture; // of the test that runs

static inline status fixture_costs_at(void *context, int iteration, bal_layer_costs *costs,
                                      bool *changed, error_message *err)
{
    *costs = fixture->costs;
    *changed = !fixture->was_asked;
    fixture->was_asked = true;
    return STATUS_OK;
}

static inline void fixture_set_share(int layer)
{
    static const double parts[MODEL_PASS_COUNT][MODEL_PART_COUNT] = {
        {0.3, 0.1, 0.5, 0.1}, {0.3, 0.2, 0.4, 0.1}, {0.375, 0, 0.625, 0}};
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        for (int part = 0; part < MODEL_PART_COUNT; part++) {
            fixture->share[pass][part][layer] = parts[pass][part];
        }
    }
}

static inline int fixture_prepare(void **state)
{
    memset(fixture, 0, sizeof *fixture);
    fixture->memory = arena_create(1 << 16);
    for (int layer = 0; layer < FIXTURE_LAYERS; layer++) {
        const bool is_transformer = layer > 0 && layer + 1 < FIXTURE_LAYERS;
        fixture->forward_ns[layer] = is_transformer ? 1000 : 70;
        fixture->backward_input_ns[layer] = is_transformer ? 2000 : 140;
        fixture->backward_weight_ns[layer] = is_transformer ? 800 : 60;
        fixture->bytes[layer] = 1600;
        fixture->weight_of_backward[layer] = 800.0 / 2800;
        if (is_transformer) fixture_set_share(layer);
    }
    fixture->costs = (bal_layer_costs){.layer_count = FIXTURE_LAYERS,
                                       .microbatch_count = 1,
                                       .has_split = true,
                                       .embedding = true,
                                       .head = true,
                                       .forward_ns = fixture->forward_ns,
                                       .backward_input_ns = fixture->backward_input_ns,
                                       .backward_weight_ns = fixture->backward_weight_ns,
                                       .parameters = fixture->bytes,
                                       .state_bytes = fixture->bytes,
                                       .activation_bytes = fixture->bytes,
                                       .gradient_bytes = fixture->bytes,
                                       .message_bytes = fixture->bytes};
    fixture->shares.layer_count = FIXTURE_LAYERS;
    fixture->shares.weight_of_backward = fixture->weight_of_backward;
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        for (int part = 0; part < MODEL_PART_COUNT; part++) {
            fixture->shares.share[pass][part] = fixture->share[pass][part];
        }
    }
    fixture->base = (model_dynamism_base){.source = {.layer_count = FIXTURE_LAYERS,
                                                     .iteration_count = 1,
                                                     .costs_at = fixture_costs_at},
                                          .shares = &fixture->shares,
                                          .iteration_count = 1000,
                                          .microbatch_count = FIXTURE_MICROBATCHES,
                                          .transformer_first = 1,
                                          .transformer_end = FIXTURE_LAYERS - 1};
    return 0;
}

static inline int fixture_clean(void **state)
{
    for (int document = 0; document < fixture->document_count; document++) {
        json_close(fixture->documents[document]);
    }
    arena_destroy(fixture->memory);
    return 0;
}

#define FIXTURE_TEST(test) TEST_BETWEEN(test, fixture_prepare, fixture_clean)

/// The object of a study's "dynamism"; single quotes stand for double ones.
static inline json_value fixture_object(const char *text)
{
    char quoted[1024];
    size_t length = strlen(text);
    assert_true(length < sizeof quoted);
    for (size_t at = 0; at < length; at++) {
        quoted[at] = text[at] == '\'' ? '"' : text[at];
    }
    json_document **document = &fixture->documents[fixture->document_count++];
    require(json_open_bytes("study.json", quoted, length, document, &why));
    return json_root(*document);
}

static inline model_dynamism *fixture_open(const char *text)
{
    model_dynamism *dynamism = NULL;
    require(model_dynamism_open(fixture_object(text), &fixture->base, fixture->memory, &dynamism,
                                &why));
    return dynamism;
}

/// Asserts that the case is refused with this status and this message.
static inline void fixture_refused(const char *text, status code, const char *message)
{
    model_dynamism *dynamism = NULL;
    assert_fails(
        model_dynamism_open(fixture_object(text), &fixture->base, fixture->memory, &dynamism, &why),
        code, message);
    assert_null(dynamism);
}

/// Asserts that a key is refused that no choice, or another one, reads.
static inline void fixture_unknown(const char *text, const char *key)
{
    model_dynamism *dynamism = NULL;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "unknown key '%s'", key);
    assert_fails_naming(
        model_dynamism_open(fixture_object(text), &fixture->base, fixture->memory, &dynamism, &why),
        STATUS_FORMAT, wanted);
}

/// And into fixture->changed whether they have changed.
static inline bal_layer_costs fixture_costs(model_dynamism *dynamism, int replica, int iteration)
{
    const bal_cost_source source = model_dynamism_source(dynamism, replica);
    bal_layer_costs costs;
    require(source.costs_at(source.context, iteration, &costs, &fixture->changed, &why));
    return costs;
}

static inline void fixture_times(const bal_layer_costs *costs, int layer, int64_t forward_ns,
                                 int64_t backward_input_ns, int64_t backward_weight_ns)
{
    assert_int_equal(costs->forward_ns[layer], forward_ns);
    assert_int_equal(costs->backward_input_ns[layer], backward_input_ns);
    assert_int_equal(costs->backward_weight_ns[layer], backward_weight_ns);
}

static inline uint64_t fixture_hash_costs(uint64_t hash, const bal_layer_costs *costs)
{
    const size_t layers = (size_t)costs->layer_count;
    const size_t cells = layers * (size_t)costs->microbatch_count;
    hash = file_hash(hash, costs->forward_ns, cells * sizeof(int64_t));
    hash = file_hash(hash, costs->backward_input_ns, cells * sizeof(int64_t));
    hash = file_hash(hash, costs->backward_weight_ns, cells * sizeof(int64_t));
    const int64_t *arrays[] = {costs->parameters,     costs->state_bytes,   costs->activation_bytes,
                               costs->gradient_bytes, costs->message_bytes, costs->reduction_ns};
    for (size_t array = 0; array < sizeof arrays / sizeof arrays[0]; array++) {
        if (arrays[array] == NULL) continue;
        hash = file_hash(hash, arrays[array], layers * sizeof(int64_t));
    }
    return hash;
}

/// Over the costs of iterations [0, count) and of what changed.
static inline uint64_t fixture_checksum(model_dynamism *dynamism, int replica, int count)
{
    uint64_t hash = FILE_HASH_START;
    for (int iteration = 0; iteration < count; iteration++) {
        const bal_layer_costs costs = fixture_costs(dynamism, replica, iteration);
        hash = fixture_hash_costs(hash, &costs);
        hash = file_hash(hash, &fixture->changed, sizeof fixture->changed);
    }
    return hash;
}

/// Asserts that every iteration has the same bytes whether asked in order, backwards or twice.
static inline void fixture_any_order(const char *text, int count)
{
    model_dynamism *forwards = fixture_open(text);
    model_dynamism *backwards = fixture_open(text);
    const int replica = model_dynamism_source_count(forwards) - 1;
    uint64_t expected[256];
    assert_true(count <= 256);
    for (int iteration = 0; iteration < count; iteration++) {
        const bal_layer_costs costs = fixture_costs(forwards, replica, iteration);
        expected[iteration] = fixture_hash_costs(FILE_HASH_START, &costs);
    }
    for (int iteration = count - 1; iteration >= 0; iteration--) {
        for (int twice = 0; twice < 2; twice++) {
            fixture_costs(backwards, 0, iteration / 2);
            const bal_layer_costs costs = fixture_costs(backwards, replica, iteration);
            assert_true(expected[iteration] == fixture_hash_costs(FILE_HASH_START, &costs));
        }
    }
}

/// The value of an assumption, NULL if it is not listed.
static inline const model_assumption *fixture_assumption(const model_dynamism *dynamism,
                                                         const char *name)
{
    int count = 0;
    const model_assumption *rows = model_dynamism_assumptions(dynamism, &count);
    for (int row = 0; row < count; row++) {
        if (strcmp(rows[row].name, name) == 0) return &rows[row];
    }
    return NULL;
}
