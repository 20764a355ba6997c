/// What a case of dynamism costs: nanoseconds per layer, microbatch and iteration, over a base of
/// constant costs, asked in order.
#include "models/cost/cost_model.h"
#include "models/dynamism/dynamism.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <string.h>

enum { ITERATIONS = 10000 };

/// A model with a case over it.
typedef struct bench_case {
    const char *model;
    const char *object; // of the study
    model_parallel parallel;
    int microbatch_count;
} bench_case;

static status open_case(const bench_case *with, arena *memory, json_document **document,
                        model_source *source, model_costs *costs, model_layer_shares *shares,
                        model_dynamism **dynamism, error_message *err)
{
    const model_training training = {
        .sequence_length = 2048, .microbatch_size = 2, .parallel = with->parallel};
    TRY(model_costs_from_files(with->model, "h100-sxm", &training, memory, costs, err));
    model_layer_shares_of_costs(costs, memory, shares);
    TRY(json_open_bytes("bench", with->object, strlen(with->object), document, err));
    const model_dynamism_base base = {
        .source = model_source_init(source, costs),
        .shares = shares,
        .config = &costs->config,
        .shape = &costs->shape,
        .hardware = &costs->hardware,
        .parallel = with->parallel,
        .iteration_count = ITERATIONS,
        .microbatch_count = with->microbatch_count,
        .transformer_first = 1,
        .transformer_end = costs->layers.layer_count - 1,
    };
    return model_dynamism_open(json_root(*document), &base, memory, dynamism, err);
}

static void play(model_dynamism *dynamism, int iterations, error_message *err)
{
    const int sources = model_dynamism_source_count(dynamism);
    for (int iteration = 0; iteration < iterations; iteration++) {
        for (int replica = 0; replica < sources; replica++) {
            const bal_cost_source source = model_dynamism_source(dynamism, replica);
            bal_layer_costs costs;
            bool changed = false;
            bench_require(source.costs_at(source.context, iteration, &costs, &changed, err), err);
        }
    }
}

static void measure(bool smoke, const bench_case *with)
{
    arena *memory = arena_create(1 << 20);
    json_document *document = NULL;
    model_source source;
    model_costs costs;
    model_layer_shares shares;
    model_dynamism *dynamism = NULL;
    error_message err = {0};
    const int iterations = smoke ? 3 : ITERATIONS;
    if (memory == NULL) bench_require(STATUS_NO_MEMORY, &err);
    bench_require(open_case(with, memory, &document, &source, &costs, &shares, &dynamism, &err),
                  &err);
    const int sources = model_dynamism_source_count(dynamism);
    const int layers = costs.layers.layer_count;
    const int64_t begin_ns = bench_now_ns();
    play(dynamism, iterations, &err);
    const double ns = (double)(bench_now_ns() - begin_ns);
    const double cells = (double)iterations * sources * layers * with->microbatch_count;
    bench_print("dynamism_ns_per_cell", ns / cells, "ns", "%s, %d sources, L=%d M=%d, %s",
                model_dynamism_name(dynamism), sources, layers, with->microbatch_count,
                with->model);
    bench_print("dynamism_s", ns / 1e9, "s", "%s, %d sources, L=%d M=%d, %d iterations",
                model_dynamism_name(dynamism), sources, layers, with->microbatch_count, iterations);
    json_close(document);
    arena_destroy(memory);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    const bench_case cases[] = {
        {"mixtral-8x7b", "{\"case\":\"moe\"}", {.data = 8, .expert = 8}, 64},
        {"mixtral-8x7b", "{\"case\":\"moe\"}", {.data = 8, .expert = 1}, 64},
        {"mixtral-8x7b", "{\"case\":\"moe\"}", {.data = 16, .expert = 2}, 64},
        {"llama-moe-3.5b", "{\"case\":\"moe\"}", {.data = 8, .expert = 8}, 64},
        {"gpt-dynmo", "{\"case\":\"pruning\"}", {.data = 8}, 64},
        {"gpt-dynmo", "{\"case\":\"freezing\"}", {.data = 8}, 64},
        {"gpt-dynmo", "{\"case\":\"sparse-attention\"}", {.data = 8}, 64},
        {"gpt-dynmo", "{\"case\":\"sparse-attention\",\"per_microbatch\":true}", {.data = 1}, 64},
        {"gpt-dynmo", "{\"case\":\"early-exit\"}", {.data = 8}, 64},
        {"gpt-dynmo", "{\"case\":\"early-exit\",\"keep_variation\":0.1}", {.data = 1}, 64},
        {"gpt-dynmo", "{\"case\":\"mod\"}", {.data = 8}, 64},
        {"gpt-dynmo", "{\"case\":\"mod\",\"predictor_error_ratio\":0.1}", {.data = 1}, 64},
        {"gpt-dynmo", "{\"case\":\"mod\",\"predictor_error_ratio\":0.1}", {.data = 8}, 64},
    };
    for (size_t at = 0; at < sizeof cases / sizeof cases[0]; at++) {
        measure(smoke, &cases[at]);
    }
    return 0;
}
