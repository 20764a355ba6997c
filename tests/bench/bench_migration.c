/// How long it takes to plan a migration and to choose a number of ranks: from the even plan of a
/// model whose front became lighter, as layers that freeze make it.
#include "balance/migration/assignment.h"
#include "balance/migration/migration_plan.h"
#include "balance/partition/balancer.h"
#include "balance/repack/repack.h"
#include "base/arena.h"
#include "base/rng.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 1024, RANKS_MAX = 256 };

typedef struct decision {
    bal_problem problem;
    bal_machine machine;
    bal_placed_partition before;
    bal_answer answer; // the balancer's, in an arena of its own
    bal_migration_options options;
    bal_migration_choice choice;
    bal_repack_options repack;
    arena *memory;
    int64_t time_ns[LAYERS_MAX];
    int64_t state_bytes[LAYERS_MAX];
    int64_t cost[RANKS_MAX * RANKS_MAX];
    int current[RANKS_MAX + 1];
} decision;

/// M times the largest load: costs next to nothing, so that the choice itself shows.
static status play(void *context, const bal_layer_costs *layers, const bal_placed_partition *plan,
                   int64_t *iteration_ns, error_message *err)
{
    (void)err;
    const decision *at = context;
    int64_t largest = 0;
    for (int stage = 0; stage < plan->rank_count; stage++) {
        int64_t load = 0;
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            load += layers->forward_ns[layer];
        }
        if (load > largest) largest = load;
    }
    *iteration_ns = largest * at->problem.microbatch_count;
    return STATUS_OK;
}

static void fill(decision *at, int layer_count, int rank_count, arena *plans)
{
    rng random = rng_init(1, 1);
    error_message err = {0};
    for (int layer = 0; layer < layer_count; layer++) {
        const bool is_frozen = layer < layer_count / 3;
        at->time_ns[layer] = rng_between(&random, 1000000, 3000000) / (is_frozen ? 3 : 1);
        at->state_bytes[layer] = rng_between(&random, 100, 300) << 20;
    }
    for (int rank = 0; rank <= rank_count; rank++) {
        at->current[rank] = (int)((int64_t)layer_count * rank / rank_count);
    }
    at->machine = (bal_machine){.rank_count = rank_count,
                                .ranks_per_node = 4,
                                .intra_node = {2000, 300000000000},
                                .inter_node = {5000, 25000000000}};
    at->before = (bal_placed_partition){
        .first_layer = at->current, .rank_count = rank_count, .chunk_count = 1};
    at->problem = (bal_problem){.layers = {.layer_count = layer_count,
                                           .microbatch_count = 1,
                                           .forward_ns = at->time_ns,
                                           .state_bytes = at->state_bytes},
                                .stage_count = rank_count,
                                .microbatch_count = 4 * rank_count};
    bench_require(
        bal_balance(bal_balancer_find("partition"), &at->problem, plans, &at->answer, &err), &err);
    for (int cell = 0; cell < rank_count * rank_count; cell++) {
        at->cost[cell] = rng_between(&random, 0, 1000000000);
    }
}

static void plan(void *context)
{
    decision *at = context;
    error_message err = {0};
    const bal_migration_question question = {.problem = &at->problem,
                                             .first_layer = at->answer.first_layer,
                                             .before = &at->before,
                                             .machine = &at->machine};
    arena_reset(at->memory);
    bench_require(bal_migration_plan(&question, &at->options, at->memory, &at->choice, &err), &err);
}

static void order(void *context)
{
    decision *at = context;
    bal_migration_steps steps;
    bal_migration moves;
    error_message err = {0};
    const bal_placed_partition to = {.first_layer = at->answer.first_layer,
                                     .rank_count = at->problem.stage_count,
                                     .chunk_count = 1};
    arena_reset(at->memory);
    bench_require(bal_migration_between(&at->before, &to, &at->problem.layers, &at->machine,
                                        at->memory, &moves, &err),
                  &err);
    bench_require(bal_migration_order(&at->before, &moves, &at->problem.layers, &at->machine, NULL,
                                      at->memory, &steps, &err),
                  &err);
}

static void assign(void *context)
{
    decision *at = context;
    int column_of_row[RANKS_MAX];
    error_message err = {0};
    const int ranks = at->machine.rank_count;
    arena_reset(at->memory);
    bench_require(bal_assignment(at->cost, ranks, ranks, at->memory, column_of_row, NULL, &err),
                  &err);
}

static void choose(void *context)
{
    decision *at = context;
    bal_repack_choice choice;
    error_message err = {0};
    const bal_evaluator evaluator = {.context = at, .iteration_ns = play};
    bal_problem problem = at->problem;
    problem.evaluator = &evaluator;
    const bal_repack_question question = {.problem = &problem,
                                          .machine = &at->machine,
                                          .schedule = "1f1b",
                                          .balancer = bal_balancer_find("partition"),
                                          .before = &at->before};
    arena_reset(at->memory);
    bench_require(bal_repack_choose(&question, &at->repack, at->memory, &choice, &err), &err);
}

static void measure(bool smoke, decision *at, void (*body)(void *context), const char *bench,
                    const char *setting)
{
    const bench_time time = bench_measure(smoke, body, at);
    bench_print(bench, time.median_ns / 1e3, "us", "L=%d P=%d %s", at->problem.layers.layer_count,
                at->machine.rank_count, setting);
}

static void measure_plans(bool smoke, decision *at)
{
    at->options = (bal_migration_options){0};
    measure(smoke, at, plan, "migration_plan_us", "the decided cuts");
    at->options.slack_ratio = 0.03;
    measure(smoke, at, plan, "migration_plan_us", "slack 0.03");
    at->options.relabels = true;
    measure(smoke, at, plan, "migration_plan_us", "slack 0.03, relabelled");
    bench_print("migration_plan_moved_mib", (double)(at->choice.migration.bytes >> 20), "MiB",
                "L=%d P=%d slack 0.03, relabelled", at->problem.layers.layer_count,
                at->machine.rank_count);
}

/// The same model on two thirds of the ranks: which ones is part of the search.
static void measure_shrink(bool smoke, decision *at, arena *plans)
{
    error_message err = {0};
    const bal_problem all = at->problem;
    at->problem.stage_count = at->machine.rank_count * 2 / 3;
    bench_require(
        bal_balance(bal_balancer_find("partition"), &at->problem, plans, &at->answer, &err), &err);
    at->options = (bal_migration_options){.slack_ratio = 0.03};
    measure(smoke, at, plan, "migration_plan_us", "onto two thirds of the ranks, slack 0.03");
    at->problem = all;
}

static void measure_all(bool smoke, decision *at, int layer_count, int rank_count)
{
    arena *plans = arena_create(1 << 16);
    if (plans == NULL) exit(1);
    fill(at, layer_count, rank_count, plans);
    measure_plans(smoke, at);
    measure(smoke, at, order, "migration_order_us", "between and order, no caps");
    at->machine.rank_memory_bytes = (int64_t)(3 * layer_count / rank_count + 1) * (300 << 20);
    measure(smoke, at, order, "migration_order_us", "between and order, caps");
    measure(smoke, at, assign, "assignment_us", "random costs");
    at->repack = (bal_repack_options){.kind = BAL_REPACK_THROUGHPUT, .tolerance_ratio = 0.02};
    measure(smoke, at, choose, "repack_choose_us", "throughput, memory caps");
    at->repack.kind = BAL_REPACK_GPU_TIME;
    at->machine.rank_memory_bytes = 0;
    measure(smoke, at, choose, "repack_choose_us", "gpu-time, no caps");
    measure_shrink(smoke, at, plans);
    arena_destroy(plans);
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
