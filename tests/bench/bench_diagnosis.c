/// How long a diagnosis takes, over iterations x layers, from costs that are in memory: reading a
/// trace from a store is what bench_store measures.
#include "analysis/diagnosis/diagnosis.h"
#include "base/rng.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { TIMES = 3 };

/// Costs with noise in every microbatch, and a heavy part that moves through the layers.
typedef struct moving_load {
    int layer_count;
    int column_count;
    int iteration_count;
    const int64_t *state_bytes; // [layer_count]
    int64_t *times[TIMES];      // [layer_count][column_count]
} moving_load;

static status costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                       error_message *err)
{
    (void)err;
    const moving_load *of = context;
    rng generator = rng_init(1, (uint64_t)iteration);
    for (int layer = 0; layer < of->layer_count; layer++) {
        const bool is_heavy =
            (int64_t)layer * of->iteration_count < (int64_t)of->layer_count * iteration;
        for (int entry = 0; entry < of->column_count; entry++) {
            for (int pass = 0; pass < TIMES; pass++) {
                of->times[pass][layer * of->column_count + entry] =
                    (is_heavy ? 600000 : 400000) + (int64_t)rng_below(&generator, 100000);
            }
        }
    }
    *changed = true;
    *costs = (bal_layer_costs){.layer_count = of->layer_count,
                               .microbatch_count = of->column_count,
                               .has_split = true,
                               .forward_ns = of->times[0],
                               .backward_input_ns = of->times[1],
                               .backward_weight_ns = of->times[2],
                               .state_bytes = of->state_bytes};
    return STATUS_OK;
}

static void diagnose(void *context)
{
    const ana_diagnosis_options options = ana_diagnosis_options_default();
    arena *memory = arena_create(1 << 20);
    ana_diagnosis diagnosis;
    error_message err = {0};
    bench_require(ana_diagnose(context, &options, NULL, NULL, memory, &diagnosis, &err), &err);
    arena_destroy(memory);
}

/// A study of any model with so many layers, whose costs are then replaced.
static void open_setup(const moving_load *load, int stages, int microbatches, arena *memory,
                       ana_study *study, ana_setup *setup)
{
    char text[2048];
    error_message err = {0};
    snprintf(text, sizeof text,
             "{\"schema\":\"dynmo-study/1\",\"name\":\"n\",\"model\":\"gpt2\","
             "\"hardware\":\"h100-sxm\",\"training\":{\"iterations\":%d,\"microbatches\":%d,"
             "\"layers\":%d},\"pipeline\":{\"stages\":%d,\"schedule\":\"1f1b\"},"
             "\"balancing\":%s}",
             load->iteration_count, microbatches, load->layer_count - 2, stages,
             ana_diagnosis_rows);
    bench_require(ana_study_open_text("bench", text, memory, study, &err), &err);
    bench_require(ana_setup_open(study, memory, setup, &err), &err);
    setup->source = (bal_cost_source){.context = (void *)load,
                                      .layer_count = load->layer_count,
                                      .iteration_count = load->iteration_count,
                                      .costs_at = costs_at};
}

static void measure(bool smoke, int iterations, int layers, int columns, int stages,
                    int microbatches)
{
    ana_study study;
    ana_setup setup;
    arena *memory = arena_create(1 << 20);
    int64_t *state = arena_array(memory, (size_t)layers, sizeof *state);
    moving_load load = {layers, columns, iterations, state, {NULL}};
    for (int pass = 0; pass < TIMES; pass++) {
        load.times[pass] = arena_array(memory, (size_t)layers * (size_t)columns, sizeof(int64_t));
    }
    for (int layer = 0; layer < layers; layer++) {
        state[layer] = 1000000;
    }
    open_setup(&load, stages, microbatches, memory, &study, &setup);
    const bench_time taken = bench_measure(smoke, diagnose, &setup);
    bench_print("diagnosis_ms", taken.median_ns / 1e6, "ms",
                "T=%d L=%d P=%d M=%d, times of %d microbatches", iterations, layers, stages,
                microbatches, columns);
    ana_setup_close(&setup);
    ana_study_close(&study);
    arena_destroy(memory);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    measure(smoke, smoke ? 20 : 100, 32, 1, 4, 8);
    if (smoke) return 0;
    measure(smoke, 1000, 32, 1, 4, 8);
    measure(smoke, 1000, 96, 1, 8, 32);
    measure(smoke, 1000, 96, 32, 8, 32);
    measure(smoke, 10000, 96, 1, 8, 32);
    measure(smoke, 10000, 96, 32, 8, 32);
    measure(smoke, 1000, 96, 1, 32, 256);
    return 0;
}
