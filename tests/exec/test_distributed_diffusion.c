/// The distributed balancer against the core's, on random chains with every rule there is.
#include "balance/partition/balancer.h"
#include "base/rng.h"
#include "exec/transport/distributed_diffusion.h"
#include "tests/exec/thread_ranks.h"
#include "tests/exec/world_group.h"

#include <stdio.h>
#include <string.h>

enum { RANKS_MAX = 24, LAYERS_MAX = 60 };

/// A problem as the core has it whole.
typedef struct whole {
    bal_problem problem;
    int64_t weight[LAYERS_MAX];
    int64_t zero[LAYERS_MAX];
    int64_t state_bytes[LAYERS_MAX];
    int64_t activation_bytes[LAYERS_MAX];
    int64_t transfer_ns[LAYERS_MAX];
    int64_t memory_bytes[RANKS_MAX];
    int64_t inflight[RANKS_MAX];
    int64_t factor_ppb[RANKS_MAX];
    int64_t fixed_ns[RANKS_MAX];
    int current[RANKS_MAX + 1];
    exec_diffusion_answer answers[RANKS_MAX];
} whole;

static status decide(exec_endpoint *endpoint, void *context, error_message *err)
{
    whole *all = context;
    const bal_problem *problem = &all->problem;
    int ranks[RANKS_MAX];
    int sequence;
    const exec_group group = world_group(endpoint, ranks, &sequence);
    const exec_diffusion_rules rules = {
        .layer_count = problem->layers.layer_count,
        .allow_empty_stages = problem->allow_empty_stages,
        .embedding = problem->layers.embedding,
        .head = problem->layers.head,
        .by_transfer = problem->weight == BAL_WEIGHT_TIME_TRANSFER,
        .stage_memory_bytes = problem->stage_memory_bytes,
        .stage_inflight = problem->stage_inflight,
        .stage_time_factor_ppb = problem->stage_time_factor_ppb,
        .stage_fixed_ns = problem->stage_fixed_ns,
    };
    // Copies of the own layers alone: who reads others' reads outside of them.
    const int first = all->current[endpoint->rank];
    const int end = all->current[endpoint->rank + 1];
    const size_t bytes = (size_t)(end - first) * sizeof(int64_t);
    int64_t copies[4][LAYERS_MAX];
    memcpy(copies[0], all->weight + first, bytes);
    memcpy(copies[1], all->state_bytes + first, bytes);
    memcpy(copies[2], all->activation_bytes + first, bytes);
    memcpy(copies[3], all->transfer_ns + first, bytes);
    const exec_diffusion_layers own = {.first_layer = first,
                                       .end_layer = end,
                                       .weight = copies[0],
                                       .state_bytes = copies[1],
                                       .activation_bytes = copies[2],
                                       .transfer_ns = copies[3]};
    arena *memory = arena_create(1 << 14);
    const status code = exec_distributed_diffusion(&group, &rules, &own, memory,
                                                   &all->answers[endpoint->rank], err);
    arena_destroy(memory);
    return code;
}

static void draw_rules(rng *random, whole *all)
{
    bal_problem *problem = &all->problem;
    const int stages = problem->stage_count;
    int64_t memory = 0;
    for (int layer = 0; layer < problem->layers.layer_count; layer++) {
        memory += all->state_bytes[layer] + all->activation_bytes[layer];
    }
    for (int stage = 0; stage < stages; stage++) {
        all->memory_bytes[stage] =
            memory * rng_between(random, 8, 40) / (10 * stages) + rng_between(random, 0, 60);
        all->inflight[stage] = rng_between(random, 1, 2);
        all->factor_ppb[stage] = rng_between(random, 500000000, 2500000000);
        all->fixed_ns[stage] = rng_between(random, 0, 500);
    }
    if (rng_below(random, 3) == 0) problem->stage_memory_bytes = all->memory_bytes;
    if (rng_below(random, 3) == 0) problem->stage_inflight = all->inflight;
    if (rng_below(random, 3) == 0) problem->stage_time_factor_ppb = all->factor_ppb;
    if (rng_below(random, 4) == 0) problem->stage_fixed_ns = all->fixed_ns;
}

static void draw(uint64_t seed, whole *all)
{
    rng random = rng_init(seed, 3);
    *all = (whole){0};
    bal_problem *problem = &all->problem;
    const int stages = 1 + (int)rng_below(&random, seed % 10 == 0 ? RANKS_MAX : 8);
    problem->stage_count = stages;
    problem->allow_empty_stages = rng_below(&random, 2) == 0;
    const int least = problem->allow_empty_stages ? 2 : (stages > 2 ? stages : 2);
    const int layers = least + (int)rng_below(&random, (uint64_t)(LAYERS_MAX - least));
    const int64_t largest = rng_below(&random, 4) == 0 ? 3 : 100000;
    for (int layer = 0; layer < layers; layer++) {
        all->weight[layer] = rng_below(&random, 5) == 0
                                 ? 0
                                 : rng_between(&random, 0, largest) * (layer % 7 == 3 ? 9 : 1);
        all->state_bytes[layer] = rng_between(&random, 0, 50);
        all->activation_bytes[layer] = rng_between(&random, 0, 50);
        all->transfer_ns[layer] = rng_between(&random, 0, largest / 4);
    }
    problem->layers = (bal_layer_costs){.layer_count = layers,
                                        .microbatch_count = 1,
                                        .embedding = rng_below(&random, 2) == 0,
                                        .head = rng_below(&random, 2) == 0,
                                        .forward_ns = all->weight,
                                        .backward_input_ns = all->zero,
                                        .backward_weight_ns = all->zero,
                                        .state_bytes = all->state_bytes,
                                        .activation_bytes = all->activation_bytes};
    problem->transfer_ns = all->transfer_ns;
    problem->weight = rng_below(&random, 3) == 0 ? BAL_WEIGHT_TIME_TRANSFER : BAL_WEIGHT_TIME;
    draw_rules(&random, all);
    // The plan in force: all of it on some ranks, or anyhow.
    for (int stage = 1; stage < stages; stage++) {
        const int before = all->current[stage - 1];
        const bool stays = rng_below(&random, 3) == 0;
        const int room = layers - before;
        all->current[stage] = before + (stays ? 0 : (int)rng_below(&random, (uint64_t)room + 1));
    }
    all->current[stages] = layers;
    problem->current_first_layer = all->current;
}

/// What all ranks decide is what the core decides.
///
/// @return whether there is a plan at all
static bool compare(uint64_t seed, whole *all)
{
    const int stages = all->problem.stage_count;
    const bal_balancer *diffusion = bal_balancer_find("diffusion");
    error_message err = {0};
    bal_answer expected;
    arena *memory = arena_create(1 << 16);
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = stages;
    const status wanted = bal_balance(diffusion, &all->problem, memory, &expected, &err);
    const status found = exec_transport_run("local", &options, decide, all, &err);
    if (found != wanted) {
        fail_msg("seed %llu: %d instead of %d: %s", (unsigned long long)seed, found, wanted,
                 err.message);
    }
    for (int stage = 0; wanted == STATUS_OK && stage < stages; stage++) {
        const exec_diffusion_answer *answer = &all->answers[stage];
        if (answer->first_layer != expected.first_layer[stage] ||
            answer->end_layer != expected.first_layer[stage + 1]) {
            fail_msg("seed %llu: stage %d of %d has [%d, %d), the core says [%d, %d)",
                     (unsigned long long)seed, stage, stages, answer->first_layer,
                     answer->end_layer, expected.first_layer[stage],
                     expected.first_layer[stage + 1]);
        }
    }
    arena_destroy(memory);
    return wanted == STATUS_OK;
}

static void ranks_decide_as_the_core_does(void **state)
{
    (void)state;
    int feasible = 0;
    for (uint64_t seed = 0; seed < 800; seed++) {
        static whole all;
        draw(seed, &all);
        feasible += compare(seed, &all) ? 1 : 0;
    }
    assert_true(feasible > 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_decide_as_the_core_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
