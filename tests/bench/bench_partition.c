/// How long a decision takes: exact partitioning of chains of random layers, by objective and rule.
#include "balance/partition/balancer.h"
#include "balance/partition/partition.h"
#include "base/arena.h"
#include "base/rng.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

enum { LAYERS_MAX = 1024, STAGES_MAX = 256 };

/// One problem and what solves it.
typedef struct decision {
    bal_problem problem;
    const char *balancer;
    arena *memory;
    int64_t time_ns[LAYERS_MAX];
    int64_t state_bytes[LAYERS_MAX];
    int64_t transfer_ns[LAYERS_MAX];
    int64_t cap_bytes[STAGES_MAX];
    int64_t factor_ppb[STAGES_MAX];
    int current[STAGES_MAX + 1];
} decision;

static void decide(void *context)
{
    decision *at = context;
    bal_answer answer;
    error_message err = {0};
    arena_reset(at->memory);
    if (bal_balance(bal_balancer_find(at->balancer), &at->problem, at->memory, &answer, &err) !=
        STATUS_OK) {
        fprintf(stderr, "bench_partition: %s\n", err.message);
        exit(1);
    }
}

/// Layers of 1 to 3 ms; every third one lighter, as pruning leaves them.
static void fill(decision *at, int layer_count, int stage_count)
{
    rng random = rng_init(1, 1);
    for (int layer = 0; layer < layer_count; layer++) {
        at->time_ns[layer] = rng_between(&random, 1000000, 3000000) / (layer % 3 == 0 ? 4 : 1);
        at->state_bytes[layer] = rng_between(&random, 100, 300) << 20;
        at->transfer_ns[layer] = rng_between(&random, 10000, 50000);
    }
    for (int stage = 0; stage < stage_count; stage++) {
        at->cap_bytes[stage] = (int64_t)(layer_count / stage_count + 2) * (300 << 20);
        at->factor_ppb[stage] = rng_between(&random, 900000000, 1200000000);
        at->current[stage + 1] = (int)((int64_t)layer_count * (stage + 1) / stage_count);
    }
    at->problem = (bal_problem){.layers = {.layer_count = layer_count,
                                           .microbatch_count = 1,
                                           .forward_ns = at->time_ns,
                                           .parameters = at->time_ns,
                                           .state_bytes = at->state_bytes},
                                .stage_count = stage_count,
                                .microbatch_count = 4 * stage_count,
                                .transfer_ns = at->transfer_ns,
                                .current_first_layer = at->current};
}

static void measure(bool smoke, decision *at, const char *bench, const char *rules)
{
    const bench_time time = bench_measure(smoke, decide, at);
    bench_print(bench, time.median_ns / 1e3, "us", "L=%d P=%d %s", at->problem.layers.layer_count,
                at->problem.stage_count, rules);
}

static void measure_all(bool smoke, decision *at, int layer_count, int stage_count)
{
    fill(at, layer_count, stage_count);
    at->balancer = "partition";
    measure(smoke, at, "partition_exact_us", "time");
    at->problem.stage_memory_bytes = at->cap_bytes;
    at->problem.stage_time_factor_ppb = at->factor_ppb;
    measure(smoke, at, "partition_exact_us", "time, memory caps, time factors");
    fill(at, layer_count, stage_count);
    at->problem.objective = BAL_OBJECTIVE_1F1B_BOUND;
    measure(smoke, at, "partition_1f1b_bound_us", "time");
    at->problem.objective = BAL_OBJECTIVE_MOVED_BYTES;
    at->problem.load_cap_ns = INT64_C(12000000) * layer_count / stage_count / 4;
    measure(smoke, at, "partition_moved_bytes_us", "time");
    at->problem.objective = BAL_OBJECTIVE_BOTTLENECK;
    at->problem.weight = BAL_WEIGHT_TIME_TRANSFER;
    measure(smoke, at, "partition_transfer_us", "time+transfer");
    at->problem.weight = BAL_WEIGHT_TIME;
    at->balancer = "diffusion";
    measure(smoke, at, "diffusion_us", "time, with its bound");
    at->balancer = "parameters-legacy";
    measure(smoke, at, "parameters_legacy_us", "time, with its bound");
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    decision *at = memory_array(1, sizeof *at);
    if (at == NULL) return 1;
    at->memory = arena_create(1 << 20);
    if (at->memory == NULL) return 1;
    measure_all(smoke, at, 96, 24);
    measure_all(smoke, at, 1024, 256);
    arena_destroy(at->memory);
    free(at);
    return 0;
}
