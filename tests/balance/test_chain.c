/// A problem's checks, each by its message, the arithmetic of loads, and the lower bound of
/// assignments: by hand where it is met, and never above any of them.
#include "balance/partition/chain.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"

static const int64_t ones[] = {1, 1, 1, 1};

static bal_problem four_layers(void)
{
    return (bal_problem){.layers = {.layer_count = 4,
                                    .microbatch_count = 1,
                                    .forward_ns = ones,
                                    .parameters = ones,
                                    .state_bytes = ones,
                                    .activation_bytes = ones},
                         .stage_count = 2};
}

TEST(what_is_wrong_with_a_problem_is_invalid_and_named)
{
    static const int64_t negative[] = {1, -2, 1, 1};
    static const int64_t huge[] = {INT64_MAX / 2, INT64_MAX / 2, INT64_MAX / 2, 1};
    static const int64_t almost[] = {INT64_MAX, 0, 0, 0};
    static const int64_t half[] = {INT64_MAX / 2 + 1, 0, 0, 0};
    static const int64_t less[] = {INT64_MAX / 2, 0, 0, 0};
    const struct {
        const char *message;
        bal_problem problem; // what is 0 is as in four_layers
    } cases[] = {
        {"stage_count 5 exceeds layer_count 4 and empty stages are not allowed",
         {.stage_count = 5}},
        {"layer_count -1 is outside [0, 1048576]", {.layers.layer_count = -1}},
        {"layer_count 1 is below the 2 of embedding and head",
         {.stage_count = 1, .layers = {.layer_count = 1, .embedding = true, .head = true}}},
        {"forward_ns of layer 1 is negative: -2", {.layers.forward_ns = negative}},
        {"backward_weight_ns of layer 1 is negative: -2", {.layers.backward_weight_ns = negative}},
        {"state_bytes of layer 1 is negative: -2", {.layers.state_bytes = negative}},
        {"activation_bytes of layer 1 is negative: -2", {.layers.activation_bytes = negative}},
        {"parameters of layer 1 is negative: -2",
         {.weight = BAL_WEIGHT_PARAMETERS, .layers.parameters = negative}},
        {"weighing by parameters needs parameters", {.weight = BAL_WEIGHT_PARAMETERS}},
        {"weighing by time+transfer needs transfer_ns", {.weight = BAL_WEIGHT_TIME_TRANSFER}},
        {"time: the sum up to layer 2 does not fit 64 bits", {.layers.forward_ns = huge}},
        {"the loads of all layers (9223372036854775807 at a factor of up to 1, fixed times and "
         "transfers) do not fit 64 bits",
         {.layers.forward_ns = almost}},
        {"the time of layer 0 does not fit 64 bits",
         {.layers = {.forward_ns = almost, .backward_input_ns = almost}}},
        {"state_bytes: the sum up to layer 2 does not fit 64 bits", {.layers.state_bytes = huge}},
        {"memory of stage 1 with stage_inflight 3 does not fit 64 bits",
         {.stage_inflight = (const int64_t[]){1, 3}, .layers.activation_bytes = less}},
        {"the loads of all layers (4611686018427387904 at a factor of up to 2, fixed times and "
         "transfers) do not fit 64 bits",
         {.stage_time_factor_ppb = (const int64_t[]){2000000000, 2000000000},
          .layers.forward_ns = half}},
        {"current_first_layer falls from 3 to 2 after stage 1",
         {.current_first_layer = (const int[]){0, 3, 2}}},
        {"current_first_layer runs from 1 to 4 instead of 0 to layer_count 4",
         {.current_first_layer = (const int[]){1, 3, 4}}},
        {"current_first_layer runs from 0 to 3 instead of 0 to layer_count 4",
         {.current_first_layer = (const int[]){0, 1, 2, 3}, .current_stage_count = 3}},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        bal_problem problem = cases[index].problem;
        bal_layer_costs *layers = &problem.layers;
        bal_chain chain = {.layer_count = -7};
        if (problem.stage_count == 0) problem.stage_count = 2;
        if (layers->layer_count == 0) layers->layer_count = 4;
        if (layers->microbatch_count == 0) layers->microbatch_count = 1;
        if (layers->forward_ns == NULL) layers->forward_ns = ones;

        assert_fails(bal_chain_of(&problem, memory, &chain, &why), STATUS_INVALID,
                     cases[index].message);
        assert_int_equal(chain.layer_count, -7);
    }
}

TEST(loads_are_factor_times_layers_rounded_half_up_plus_fixed)
{
    const int64_t time[] = {3, 4, 5, 6};
    const int64_t factor[] = {1500000000, 250000000};
    const int64_t fixed[] = {0, 10};
    bal_problem problem = four_layers();
    problem.layers.forward_ns = time;
    problem.stage_time_factor_ppb = factor;
    problem.stage_fixed_ns = fixed;
    bal_chain chain;
    assert_ok(bal_chain_of(&problem, memory, &chain, NULL));

    assert_int_equal(bal_chain_load(&chain, 0, 0, 1), 5);  // 4.5
    assert_int_equal(bal_chain_load(&chain, 0, 0, 4), 27); // 18 * 1.5
    assert_int_equal(bal_chain_load(&chain, 1, 2, 4), 13); // 2.75 + 10
    assert_int_equal(bal_chain_load(&chain, 1, 3, 3), 0);
    for (int64_t load = 0; load < 40; load++) {
        for (int stage = 0; stage < 2; stage++) {
            const int64_t weight = bal_chain_weight_within(&chain, stage, load);
            if (weight >= 0) {
                assert_true(bal_chain_load_of_weight(&chain, stage, weight) <= load);
            }
            assert_true(bal_chain_load_of_weight(&chain, stage, weight + 1) > load);
        }
    }
}

TEST(a_stage_waits_for_the_messages_over_both_of_its_cuts)
{
    const int64_t transfer[] = {10, 20, 30, 40};
    bal_problem problem = four_layers();
    problem.weight = BAL_WEIGHT_TIME_TRANSFER;
    problem.transfer_ns = transfer;
    bal_chain chain;
    assert_ok(bal_chain_of(&problem, memory, &chain, NULL));

    assert_int_equal(bal_chain_load(&chain, 0, 0, 2), 2 + 20);
    assert_int_equal(bal_chain_load(&chain, 0, 1, 3), 2 + 10 + 30);
    assert_int_equal(bal_chain_load(&chain, 1, 2, 4), 2 + 20);
    assert_int_equal(bal_chain_load(&chain, 1, 0, 4), 4);
    assert_int_equal(bal_chain_own_load(&chain, 0, 1, 3), 2);
}

TEST(microbatches_count_with_their_mean)
{
    const int64_t forward[] = {1, 2, 10, 11};
    const int64_t input[] = {0, 0, 0, 2};
    bal_problem problem = {.layers = {.layer_count = 2,
                                      .microbatch_count = 2,
                                      .forward_ns = forward,
                                      .backward_input_ns = input},
                           .stage_count = 1};
    bal_chain chain;
    assert_ok(bal_chain_of(&problem, memory, &chain, NULL));

    assert_int_equal(bal_chain_load(&chain, 0, 0, 1), 2);  // 1.5
    assert_int_equal(bal_chain_load(&chain, 0, 1, 2), 12); // 11.5
}

TEST(parameters_know_neither_factors_nor_fixed_times)
{
    bal_problem problem = four_layers();
    problem.weight = BAL_WEIGHT_PARAMETERS;
    problem.stage_time_factor_ppb = (const int64_t[]){2000000000, 2000000000};
    problem.stage_fixed_ns = (const int64_t[]){7, 7};
    bal_chain chain;
    assert_ok(bal_chain_of(&problem, memory, &chain, NULL));

    assert_int_equal(bal_chain_load(&chain, 0, 0, 2), 2);
}

TEST(a_plan_that_breaks_a_rule_is_told_which)
{
    bal_problem problem = four_layers();
    problem.layers.embedding = true;
    problem.layers.head = true;
    problem.stage_memory_bytes = (const int64_t[]){4, 5};
    bal_chain chain;
    assert_ok(bal_chain_of(&problem, memory, &chain, NULL));

    assert_ok(bal_chain_check(&chain, (const int[]){0, 2, 4}, &why));
    assert_fails(bal_chain_check(&chain, (const int[]){0, 0, 4}, &why), STATUS_INFEASIBLE,
                 "stage 0 is left empty: empty stages are not allowed");
    assert_fails(bal_chain_check(&chain, (const int[]){0, 3, 4}, &why), STATUS_INFEASIBLE,
                 "stage 0 with layers [0, 3) needs 6 bytes, its cap is 4");
    assert_fails(bal_chain_check(&chain, (const int[]){0, 2, 3}, &why), STATUS_INFEASIBLE,
                 "the plan runs from layer 0 to 3, not 0 to 4");
    assert_int_equal(bal_chain_check(&chain, (const int[]){0, 5, 4}, &why), STATUS_INFEASIBLE);
    chain.allow_empty_stages = true;
    assert_fails(bal_chain_check(&chain, (const int[]){0, 0, 4}, &why), STATUS_INFEASIBLE,
                 "stage 0 is left empty: it must own the embedding");
    chain.stage_memory_bytes = NULL;
    assert_fails(bal_chain_check(&chain, (const int[]){0, 4, 4}, &why), STATUS_INFEASIBLE,
                 "stage 1 is left empty: it must own the head");
}

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

TEST(no_assignment_beats_its_bound)
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

TEST(equal_ranks_are_bound_by_the_mean_and_the_largest_layer)
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
    return run_all_tests(open_memory, close_memory);
}
