/// How far the joint search stays from its bound, and how long it takes.
#include "balance/joint/joint.h"
#include "balance/joint/joint_walk.h"
#include "balance/partition/balancer.h"
#include "base/rng.h"
#include "tests/bench/bench.h"

#include <assert.h>
#include <string.h>

enum { LAYERS_MAX = 128, RANKS_MAX = 32, BUDGET = 50000, BUDGET_SMOKE = 200 };

/// A model's layers on some ranks.
typedef struct setting {
    const char *layers_name;
    int layer_count;
    int rank_count;
    int microbatch_count;
    int memory; // in activations of all microbatches that 1f1b holds, of a mean stage; 0: no caps
} setting;

static const setting settings[] = {
    {"even", 16, 4, 16, 0},    {"random", 16, 4, 16, 0}, {"ramp", 16, 4, 16, 1},
    {"even", 32, 8, 32, 1},    {"random", 32, 8, 32, 0}, {"random", 32, 8, 32, 1},
    {"ramp", 32, 8, 32, 0},    {"ramp", 32, 8, 32, 1},   {"random", 64, 8, 32, 1},
    {"random", 64, 16, 64, 1}, {"ramp", 64, 16, 32, 0},  {"random", 96, 24, 96, 0},
    {"random", 96, 24, 96, 1}, {"even", 48, 24, 96, 1},
};

/// The arrays of a setting.
typedef struct instance {
    bal_problem problem;
    int64_t forward_ns[LAYERS_MAX];
    int64_t input_ns[LAYERS_MAX];
    int64_t weight_ns[LAYERS_MAX];
    int64_t state_bytes[LAYERS_MAX];
    int64_t activation_bytes[LAYERS_MAX];
    int64_t transfer_ns[LAYERS_MAX];
    int64_t caps[RANKS_MAX];
} instance;

static int64_t layer_ns(const char *name, int layer, int layer_count, rng *random)
{
    if (strcmp(name, "random") == 0) return rng_between(random, 500000, 2000000);
    if (strcmp(name, "ramp") == 0) return 400000 + 1200000 * (int64_t)layer / layer_count;
    return 1000000;
}

/// F of 0.4 to 2 ms by layer, B as long or 20 % longer, W 20 % to 40 % shorter.
static void fill(instance *at, const setting *chosen)
{
    rng random = rng_init(1, (uint64_t)chosen->layer_count);
    const bool is_even = strcmp(chosen->layers_name, "even") == 0;
    for (int layer = 0; layer < chosen->layer_count; layer++) {
        const int64_t ns = layer_ns(chosen->layers_name, layer, chosen->layer_count, &random);
        at->forward_ns[layer] = ns;
        at->input_ns[layer] = is_even ? ns : ns * rng_between(&random, 100, 120) / 100;
        at->weight_ns[layer] = is_even ? ns : ns * rng_between(&random, 60, 80) / 100;
        at->state_bytes[layer] = 100;
        at->activation_bytes[layer] = 10;
        at->transfer_ns[layer] = 20000;
    }
    for (int rank = 0; rank < chosen->rank_count; rank++) {
        const int layers = chosen->layer_count / chosen->rank_count;
        at->caps[rank] = 100 * (layers + 2) + 10 * layers * chosen->rank_count * chosen->memory;
    }
    at->problem = (bal_problem){.layers = {.layer_count = chosen->layer_count,
                                           .microbatch_count = 1,
                                           .has_split = true,
                                           .forward_ns = at->forward_ns,
                                           .backward_input_ns = at->input_ns,
                                           .backward_weight_ns = at->weight_ns,
                                           .state_bytes = at->state_bytes,
                                           .activation_bytes = at->activation_bytes},
                                .stage_count = chosen->rank_count,
                                .microbatch_count = chosen->microbatch_count,
                                .transfer_ns = at->transfer_ns,
                                .stage_memory_bytes = chosen->memory > 0 ? at->caps : NULL};
}

static void measure(bool smoke, const setting *chosen)
{
    static instance at;
    bal_joint_answer answer;
    error_message err = {0};
    arena *memory = arena_create(1 << 20);
    assert(chosen->layer_count <= LAYERS_MAX && chosen->rank_count <= RANKS_MAX);
    fill(&at, chosen);
    const bal_joint_question question = {
        .problem = &at.problem, .play_budget = smoke ? BUDGET_SMOKE : BUDGET, .seed = 1};
    const int64_t begin_ns = bench_now_ns();
    bench_require(bal_joint_search(&question, memory, &answer, &err), &err);
    bench_print("joint_search_s", (double)(bench_now_ns() - begin_ns) / 1e9, "s",
                "%s L=%d P=%d M=%d memory=%s, %d plays", chosen->layers_name, chosen->layer_count,
                chosen->rank_count, chosen->microbatch_count,
                chosen->memory == 0 ? "free" : "1f1b's", (int)answer.play_count);
    const double gap = (double)(answer.makespan_ns - answer.lower_bound_ns);
    bench_print("joint_gap_ratio", gap / (double)answer.lower_bound_ns, "1",
                "%s L=%d P=%d M=%d memory=%s", chosen->layers_name, chosen->layer_count,
                chosen->rank_count, chosen->microbatch_count,
                chosen->memory == 0 ? "free" : "1f1b's");
    arena_destroy(memory);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    const size_t count = smoke ? 2 : sizeof settings / sizeof settings[0];
    for (size_t index = 0; index < count; index++) {
        measure(smoke, &settings[index]);
    }
    return 0;
}
