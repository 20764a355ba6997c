/// The lower bound of assignments: by hand where it is met, and never above any of them.
#include "balance/partition/chain.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

/// The least of the largest loads over every assignment of up to 6 layers to up to 3 ranks.
static int64_t exhaustive_assignment(const bal_chain *chain)
{
    int64_t best = INT64_MAX;
    int combinations = 1;
    for (int layer = 0; layer < chain->layer_count; layer++) {
        combinations *= chain->stage_count;
    }
    for (int code = 0; code < combinations; code++) {
        int64_t weight[3] = {0};
        bool owns[3] = {false};
        int rest = code;
        for (int layer = 0; layer < chain->layer_count; layer++) {
            const int rank = rest % chain->stage_count;
            rest /= chain->stage_count;
            weight[rank] += chain->weight_before[layer + 1] - chain->weight_before[layer];
            owns[rank] = true;
        }
        int64_t largest = 0;
        for (int rank = 0; rank < chain->stage_count; rank++) {
            if (!owns[rank]) continue;
            const int64_t load = bal_chain_load_of_weight(chain, rank, weight[rank]);
            if (load > largest) largest = load;
        }
        if (largest < best) best = largest;
    }
    return best;
}

static void no_assignment_beats_its_bound(void **state)
{
    rng random = rng_init(7, 1);
    int met = 0;
    for (int round = 0; round < 2000; round++) {
        int64_t weight[6];
        int64_t factor[3];
        int64_t fixed[3];
        const int layers = (int)rng_between(&random, 1, 6);
        bal_problem problem = {
            .layers = {.layer_count = layers, .microbatch_count = 1, .forward_ns = weight},
            .stage_count = (int)rng_between(&random, 1, 3),
            .allow_empty_stages = true};
        for (int layer = 0; layer < layers; layer++) {
            weight[layer] = rng_between(&random, 0, 30);
        }
        for (int rank = 0; rank < 3; rank++) {
            factor[rank] = rng_between(&random, 500000000, 2000000000);
            fixed[rank] = rng_between(&random, 0, 10);
        }
        if (rng_below(&random, 2) == 0) problem.stage_time_factor_ppb = factor;
        if (rng_below(&random, 2) == 0) problem.stage_fixed_ns = fixed;
        bal_chain chain;
        arena_reset(memory);
        assert_ok(bal_chain_of(&problem, memory, &chain, NULL));

        const int64_t bound = bal_assignment_lower_bound(&chain);

        const int64_t best = exhaustive_assignment(&chain);
        assert_true(bound <= best);
        met += bound == best;
    }
    assert_true(met > 500); // and it is often the truth
}

static void equal_ranks_are_bound_by_the_mean_and_the_largest_layer(void **state)
{
    const int64_t weight[] = {7, 1, 1, 1, 1};
    bal_problem problem = {
        .layers = {.layer_count = 5, .microbatch_count = 1, .forward_ns = weight},
        .stage_count = 2};
    bal_chain chain;
    assert_ok(bal_chain_of(&problem, memory, &chain, NULL));
    assert_int_equal(bal_assignment_lower_bound(&chain), 7);
    chain.weight_before = (const int64_t[]){0, 3, 6, 9, 10, 11};
    assert_int_equal(bal_assignment_lower_bound(&chain), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_assignment_beats_its_bound),
        cmocka_unit_test(equal_ranks_are_bound_by_the_mean_and_the_largest_layer),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
