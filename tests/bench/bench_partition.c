/// How long a decision takes: exact partitioning of chains of random layers, without and with
/// limits.
#include "balance/partition/balancer.h"
#include "balance/partition/partition.h"
#include "base/arena.h"
#include "base/rng.h"
#include "tests/bench/bench.h"

#include <stdlib.h>

enum { LAYERS_MAX = 1024, STAGES_MAX = 256 };

/// One problem and what solves it.
typedef struct decision {
    bal_problem problem;
    arena *memory;
    int64_t time_ns[LAYERS_MAX];
    int64_t state_bytes[LAYERS_MAX];
    int64_t cap_bytes[STAGES_MAX];
    int64_t factor_ppb[STAGES_MAX];
} decision;

static void decide(void *context)
{
    decision *at = context;
    bal_answer answer;
    error_message err = {0};
    arena_reset(at->memory);
    bench_require(
        bal_balance(bal_balancer_find("partition"), &at->problem, at->memory, &answer, &err), &err);
}

/// Layers of 1 to 3 ms; every third one lighter, as pruning leaves them.
static void fill(decision *at, int layer_count, int stage_count)
{
    rng random = rng_init(1, 1);
    for (int layer = 0; layer < layer_count; layer++) {
        at->time_ns[layer] = rng_between(&random, 1000000, 3000000) / (layer % 3 == 0 ? 4 : 1);
        at->state_bytes[layer] = rng_between(&random, 100, 300) << 20;
    }
    for (int stage = 0; stage < stage_count; stage++) {
        at->cap_bytes[stage] = (int64_t)(layer_count / stage_count + 2) * (300 << 20);
        at->factor_ppb[stage] = rng_between(&random, 900000000, 1200000000);
    }
    at->problem = (bal_problem){.layers = {.layer_count = layer_count,
                                           .microbatch_count = 1,
                                           .forward_ns = at->time_ns,
                                           .parameters = at->time_ns,
                                           .state_bytes = at->state_bytes},
                                .stage_count = stage_count,
                                .microbatch_count = 4 * stage_count};
}

static void measure(bool smoke, decision *at, const char *rules)
{
    const bench_time time = bench_measure(smoke, decide, at);
    bench_print("partition_exact_us", time.median_ns / 1e3, "us", "L=%d P=%d %s",
                at->problem.layers.layer_count, at->problem.stage_count, rules);
}

static void measure_all(bool smoke, decision *at, int layer_count, int stage_count)
{
    fill(at, layer_count, stage_count);
    measure(smoke, at, "time");
    at->problem.stage_memory_bytes = at->cap_bytes;
    at->problem.stage_time_factor_ppb = at->factor_ppb;
    measure(smoke, at, "time, memory caps, time factors");
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    decision *at = memory_array(1, sizeof *at);
    at->memory = arena_create(1 << 20);
    measure_all(smoke, at, 96, 24);
    measure_all(smoke, at, 1024, 256);
    arena_destroy(at->memory);
    free(at);
    return 0;
}
