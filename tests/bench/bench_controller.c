/// How long one decision of the controller takes, by policy and by the size of the problem: loads
/// that scatter in every iteration, so that nothing repeats.
#include "balance/control/controller.h"
#include "base/arena.h"
#include "base/rng.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 16 };

/// A controller and the iterations that it is shown in turn.
typedef struct run {
    bal_controller *controller;
    int iteration;
    int layer_count;
    int column_count;
    int64_t *times; // [ROUNDS][layer_count][column_count]
    int64_t *bytes; // [layer_count]
} run;

static bal_layer_costs costs_of(const run *at, int round)
{
    const int64_t *times = at->times + (int64_t)round * at->layer_count * at->column_count;
    return (bal_layer_costs){.layer_count = at->layer_count,
                             .microbatch_count = at->column_count,
                             .has_split = true,
                             .forward_ns = times,
                             .backward_input_ns = times,
                             .backward_weight_ns = times,
                             .parameters = at->bytes,
                             .state_bytes = at->bytes,
                             .activation_bytes = at->bytes};
}

static void decide(void *context)
{
    run *at = context;
    bal_decision decision;
    error_message err = {0};
    const bal_layer_costs layers = costs_of(at, at->iteration % ROUNDS);
    const bal_profile profile = {.iteration = at->iteration++, .layers = &layers, .changed = true};
    bench_require(bal_controller_observe(at->controller, &profile, &decision, &err), &err);
}

static void fill(run *at)
{
    rng random = rng_init(1, 1);
    const int64_t per_round = (int64_t)at->layer_count * at->column_count;
    for (int64_t index = 0; index < ROUNDS * per_round; index++) {
        const int64_t layer = index % per_round / at->column_count;
        const int64_t base = layer % 3 == 0 ? 700000 : 1000000;
        at->times[index] = rng_between(&random, base * 4 / 5, base * 6 / 5);
    }
    for (int layer = 0; layer < at->layer_count; layer++) {
        at->bytes[layer] = rng_between(&random, 100, 300) << 20;
    }
}

static void measure(bool smoke, const char *policy, bal_controller_options options, int layer_count,
                    int rank_count, int column_count, const char *more)
{
    error_message err = {0};
    bal_decision decision;
    run at = {.layer_count = layer_count, .column_count = column_count};
    const size_t cells = (size_t)layer_count * (size_t)column_count;
    at.times = memory_array(ROUNDS * cells, sizeof *at.times);
    at.bytes = memory_array((size_t)layer_count, sizeof *at.bytes);
    fill(&at);
    options.balancer = bal_balancer_find("partition");
    options.change_ratio = 0.25;
    options.machine = (bal_machine){.rank_count = rank_count,
                                    .ranks_per_node = 8,
                                    .intra_node = {.bytes_per_s = 300000000000},
                                    .inter_node = {.bytes_per_s = 50000000000}};
    options.schedule = "zb-h1";
    options.microbatch_count = 4 * rank_count;
    options.layer_count = layer_count;
    bench_require(bal_policy_parse(policy, &options.policy, &err), &err);
    arena *memory = arena_create(1 << 16);
    bench_require(bal_controller_create(&options, memory, &at.controller, &err), &err);
    const bal_layer_costs start = costs_of(&at, 0);
    bench_require(bal_controller_start(at.controller, &start, &decision, &err), &err);
    const bench_time time = bench_measure(smoke, decide, &at);
    bench_print("controller_decision_us", time.median_ns / 1e3, "us", "%s%s L=%d P=%d columns=%d",
                policy, more, layer_count, rank_count, column_count);
    arena_destroy(memory);
    free(at.times);
    free(at.bytes);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    static const char *const policies[] = {"never", "on-change", "every-iteration",
                                           "threshold:0.05", "shadow"};
    static const int sizes[][3] = {{26, 16, 64}, {96, 24, 1}, {96, 24, 96},
                                   {192, 24, 1}, {96, 48, 1}, {1024, 256, 1}};
    const bal_controller_options plain = {0};
    for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
        for (size_t policy = 0; policy < sizeof policies / sizeof policies[0]; policy++) {
            measure(smoke, policies[policy], plain, sizes[size][0], sizes[size][1], sizes[size][2],
                    "");
        }
    }
    const bal_controller_options cheap = {.migration = {.slack_ratio = 0.03, .relabels = true}};
    measure(smoke, "every-iteration", cheap, 96, 24, 1, " slack 0.03, relabelled");
    return 0;
}
