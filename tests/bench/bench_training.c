/// What replaying a training run costs: iterations whose loads all change, under a balancer that
/// keeps its plan and under one that decides every ten iterations.
#include "base/rng.h"
#include "sim/training.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { STAGES = 24, MICROBATCHES = 96, LAYERS = 96 };

/// Layers around 5 ms per op, all of them redrawn in every iteration.
typedef struct noisy_source {
    rng generator;
    int64_t forward[LAYERS];
    int64_t input[LAYERS];
    int64_t weight[LAYERS];
    int64_t bytes[LAYERS];
} noisy_source;

static status noisy_costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                             error_message *err)
{
    (void)iteration;
    (void)err;
    noisy_source *source = context;
    for (int layer = 0; layer < LAYERS; layer++) {
        source->forward[layer] = rng_between(&source->generator, 4000000, 6000000);
        source->input[layer] = rng_between(&source->generator, 4000000, 6000000);
        source->weight[layer] = rng_between(&source->generator, 3000000, 5000000);
        source->bytes[layer] = 1 << 20;
    }
    *changed = true;
    *costs = (bal_layer_costs){.layer_count = LAYERS,
                               .microbatch_count = 1,
                               .has_split = true,
                               .forward_ns = source->forward,
                               .backward_input_ns = source->input,
                               .backward_weight_ns = source->weight,
                               .state_bytes = source->bytes,
                               .activation_bytes = source->bytes,
                               .gradient_bytes = source->bytes,
                               .message_bytes = source->bytes};
    return STATUS_OK;
}

static void measure(bool smoke, const char *balancer, const char *policy_name, int iterations)
{
    noisy_source *source = malloc(sizeof *source);
    arena *memory = arena_create(1 << 20);
    error_message err = {0};
    if (source == NULL || memory == NULL) bench_require(STATUS_NO_MEMORY, &err);
    source->generator = rng_init(1, 0);
    const bal_cost_source noisy = {.context = source,
                                   .layer_count = LAYERS,
                                   .iteration_count = iterations,
                                   .costs_at = noisy_costs_at};
    sim_training training = {
        .sources = &noisy,
        .source_count = 1,
        .data_parallel = 1,
        .machine = {.rank_count = STAGES,
                    .ranks_per_node = 8,
                    .intra_node = {.latency_ns = 5000, .bytes_per_s = 450000000000},
                    .inter_node = {.latency_ns = 10000, .bytes_per_s = 50000000000}},
        .iteration_count = smoke ? 3 : iterations,
        .microbatch_count = MICROBATCHES,
        .schedule = "zb-h1",
        .change_ratio = 0.25,
        .balancer = bal_balancer_find(balancer),
    };
    bench_require(bal_policy_parse(policy_name, &training.policy, &err), &err);
    sim_training_result result;
    const int64_t begin_ns = bench_now_ns();
    bench_require(sim_training_replay(&training, memory, &result, &err), &err);
    const double seconds = (double)(bench_now_ns() - begin_ns) / 1e9;
    bench_print("training_replay_s", seconds, "s",
                "P=%d M=%d L=%d, %d iterations, all loads change, %s %s, %d plans", STAGES,
                MICROBATCHES, LAYERS, training.iteration_count, balancer, policy_name,
                1 + result.rebalance_count);
    arena_destroy(memory);
    free(source);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    measure(smoke, "even", "never", 10000);
    measure(smoke, "partition", "every:10", 10000);
    measure(smoke, "partition", "every:1", 10000);
    return 0;
}
