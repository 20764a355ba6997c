/// The distributed balancer decides what the core's decides, on random chains: every rank compares
/// its own stage with the whole answer, which it works out for itself. Over local and over mpi.
#include "balance/partition/balancer.h"
#include "base/rng.h"
#include "exec/transport/distributed_diffusion.h"
#include "tests/exec/world_group.h"
#include "tests/mpi/world.h"

enum { ROUNDS = 60, LAYERS_MAX = 200, RANKS_MAX = 32 };

/// One problem, the same on all ranks.
typedef struct drawn {
    int64_t weight[LAYERS_MAX];
    int64_t bytes[LAYERS_MAX];
    int64_t zero[LAYERS_MAX];
    int64_t memory_bytes[RANKS_MAX];
    int64_t factor_ppb[RANKS_MAX];
    int current[RANKS_MAX + 1];
    bal_problem problem;
} drawn;

static void draw(uint64_t seed, int stages, drawn *out)
{
    rng random = rng_init(seed, 1);
    const int layers = stages + (int)rng_below(&random, (uint64_t)(LAYERS_MAX - stages));
    int64_t bytes = 0;
    *out = (drawn){0};
    for (int layer = 0; layer < layers; layer++) {
        out->weight[layer] = rng_between(&random, 0, 1000000);
        out->bytes[layer] = rng_between(&random, 1, 100);
        bytes += out->bytes[layer];
    }
    for (int stage = 0; stage < stages; stage++) {
        const int room = layers - out->current[stage];
        out->current[stage + 1] = out->current[stage] + (int)rng_below(&random, (uint64_t)room + 1);
        out->memory_bytes[stage] = 2 * bytes / stages + rng_between(&random, 0, 100);
        out->factor_ppb[stage] = rng_between(&random, 700000000, 1500000000);
    }
    out->current[stages] = layers;
    out->problem = (bal_problem){
        .stage_count = stages,
        .layers = {.layer_count = layers,
                   .microbatch_count = 1,
                   .embedding = true,
                   .head = true,
                   .forward_ns = out->weight,
                   .backward_input_ns = out->zero,
                   .backward_weight_ns = out->zero,
                   .state_bytes = out->bytes},
        .stage_memory_bytes = rng_below(&random, 3) == 0 ? out->memory_bytes : NULL,
        .stage_time_factor_ppb = rng_below(&random, 2) == 0 ? out->factor_ppb : NULL,
        .allow_empty_stages = rng_below(&random, 2) == 0,
    };
}

static status decide(const exec_group *group, uint64_t seed, arena *memory, error_message *err)
{
    static const char *const name = "diffusion";
    drawn *all = arena_array(memory, 1, sizeof *all);
    draw(seed, group->rank_count, all);
    const bal_problem *problem = &all->problem;
    bal_answer expected;
    const status wanted = bal_balance(bal_balancer_find(name), problem, memory, &expected, err);
    if (wanted == STATUS_INFEASIBLE) return STATUS_OK; // on all ranks
    TRY(wanted);
    const exec_diffusion_rules rules = {.layer_count = problem->layers.layer_count,
                                        .allow_empty_stages = problem->allow_empty_stages,
                                        .embedding = true,
                                        .head = true,
                                        .stage_memory_bytes = problem->stage_memory_bytes,
                                        .stage_time_factor_ppb = problem->stage_time_factor_ppb};
    const int first = all->current[group->self];
    const exec_diffusion_layers own = {.first_layer = first,
                                       .end_layer = all->current[group->self + 1],
                                       .weight = all->weight + first,
                                       .state_bytes = all->bytes + first};
    exec_diffusion_answer answer;
    TRY(exec_distributed_diffusion(group, &rules, &own, memory, &answer, err));
    if (answer.first_layer == expected.first_layer[group->self] &&
        answer.end_layer == expected.first_layer[group->self + 1]) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_BACKEND, "seed %d: layers [%d, %d), the core says [%d, %d)",
                     (int)seed, answer.first_layer, answer.end_layer,
                     expected.first_layer[group->self], expected.first_layer[group->self + 1]);
}

static status decide_all(exec_endpoint *endpoint, void *context, error_message *err)
{
    (void)context;
    int ranks[RANKS_MAX];
    int sequence;
    if (endpoint->rank_count > RANKS_MAX) {
        return error_set(err, STATUS_INVALID, "%d ranks, at most %d", endpoint->rank_count,
                         RANKS_MAX);
    }
    const exec_group group = world_group(endpoint, ranks, &sequence);
    arena *memory = arena_create(1 << 16);
    status code = STATUS_OK;
    for (uint64_t seed = 0; seed < ROUNDS && code == STATUS_OK; seed++) {
        code = decide(&group, seed, memory, err);
        arena_reset(memory);
    }
    arena_destroy(memory);
    return code;
}

int main(int argc, char **argv)
{
    const exec_transport_options options = world_options(argc, argv);
    world_require(argv[1], &options, decide_all, NULL, "ranks decide as the core does");
    return 0;
}
