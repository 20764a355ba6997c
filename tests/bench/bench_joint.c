/// How far from the bound, and how long: the joint search beside what was there before it, one
/// balancer for the partition and one schedule for the order. Gaps are to the one bound that holds
/// for all of them.
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

/// The arrays of a setting, and what plays its fixed schedules.
typedef struct instance {
    bal_problem problem;
    int64_t forward_ns[LAYERS_MAX];
    int64_t input_ns[LAYERS_MAX];
    int64_t weight_ns[LAYERS_MAX];
    int64_t state_bytes[LAYERS_MAX];
    int64_t activation_bytes[LAYERS_MAX];
    int64_t transfer_ns[LAYERS_MAX];
    int64_t caps[RANKS_MAX];
    const char *schedule;
    arena *scratch;
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

/// What `makespan` asks under a named schedule: a partition's order by that family, within memory.
static status play(void *context, const bal_layer_costs *costs, const bal_placed_partition *plan,
                   int64_t *iteration_ns, error_message *err)
{
    const instance *at = context;
    const bal_joint_shape shape = {.chunk_count = 1, .placement = BAL_PLACEMENT_LOOP};
    bal_joint_layers layers;
    bal_joint_ground ground;
    bal_schedule schedule;
    bool fused = false;
    (void)costs;
    arena_reset(at->scratch);
    TRY(bal_joint_layers_of(&at->problem, at->scratch, &layers, err));
    bal_joint_ground_init(&layers, shape, at->scratch, &ground);
    bal_joint_ground_set(&ground, plan->first_layer, false);
    const bal_schedule_request request = {.name = at->schedule,
                                          .rank_count = plan->rank_count,
                                          .microbatch_count = layers.microbatch_count,
                                          .costs = &ground.costs,
                                          .memory_limit = ground.board.room_bytes};
    *iteration_ns = INT64_MAX / 8; // where its order does not fit
    const status built = bal_schedule_build(&request, at->scratch, &schedule, err);
    if (built != STATUS_OK) return built == STATUS_INFEASIBLE ? STATUS_OK : built;
    bal_joint_lines_of(&ground.board, &schedule, ground.tried, &fused);
    for (int rank = 0; rank < plan->rank_count; rank++) {
        const bal_joint_code *line = ground.tried + rank * ground.board.line_op_count;
        if (!bal_joint_line_fits(&ground.board, rank, line)) return STATUS_OK;
    }
    bal_joint_ground_set(&ground, plan->first_layer, fused);
    *iteration_ns = bal_joint_play(&ground.board, ground.tried, INT64_MAX);
    return STATUS_OK;
}

static void print_gap(const setting *chosen, const char *what, int64_t makespan_ns,
                      int64_t bound_ns)
{
    if (makespan_ns >= INT64_MAX / 8) return; // nothing fitted
    bench_print(what, (double)(makespan_ns - bound_ns) / (double)bound_ns, "1",
                "%s L=%d P=%d M=%d memory=%s", chosen->layers_name, chosen->layer_count,
                chosen->rank_count, chosen->microbatch_count,
                chosen->memory == 0 ? "free" : "1f1b's");
}

static void measure_family(const setting *chosen, instance *at, const char *schedule,
                           const char *what, int64_t bound_ns)
{
    const bal_evaluator evaluator = {.context = at, .iteration_ns = play};
    bal_problem problem = at->problem;
    bal_answer answer;
    error_message err = {0};
    arena *memory = arena_create(1 << 20);
    problem.evaluator = &evaluator;
    at->schedule = schedule;
    bench_require(bal_balance(bal_balancer_find("makespan"), &problem, memory, &answer, &err),
                  &err);
    print_gap(chosen, what, answer.iteration_ns, bound_ns);
    arena_destroy(memory);
}

static void measure(bool smoke, const setting *chosen)
{
    static instance at;
    bal_joint_answer answer;
    error_message err = {0};
    arena *memory = arena_create(1 << 20);
    at.scratch = arena_create(1 << 20);
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
    print_gap(chosen, "joint_gap_ratio", answer.makespan_ns, answer.lower_bound_ns);
    int64_t of_families = INT64_MAX;
    for (int source = 0; source + 2 < answer.source_count; source++) {
        if (answer.sources[source].makespan_ns < of_families) {
            of_families = answer.sources[source].makespan_ns;
        }
    }
    print_gap(chosen, "joint_best_schedule_gap_ratio", of_families, answer.lower_bound_ns);
    measure_family(chosen, &at, "1f1b", "makespan_1f1b_gap_ratio", answer.lower_bound_ns);
    measure_family(chosen, &at, "zb-h1", "makespan_zb_h1_gap_ratio", answer.lower_bound_ns);
    measure_family(chosen, &at, "zb-auto", "makespan_zb_auto_gap_ratio", answer.lower_bound_ns);
    arena_destroy(at.scratch);
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
