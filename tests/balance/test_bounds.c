/// Lower bounds: values by hand where they are met, and never above what any order takes.
#include "balance/metrics.h"
#include "balance/partition/chain.h"
#include "balance/schedule/makespan_bounds.h"
#include "tests/assert_close.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"
#include "tests/test_memory.h"

#include <string.h>

static void no_order_beats_the_bounds(void **state)
{
    arena *memory = *state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        arena_reset(memory);
        const random_problem at = random_problem_draw(seed, memory);
        const bal_schedule *schedule = &at.schedule;

        const bal_timeline timeline = reference_play(schedule, &at.costs, memory);

        const bal_metrics metrics = bal_metrics_of(&timeline);
        const int64_t makespan =
            bal_makespan_lower_bound_ns(&at.costs, schedule->rank_count, schedule->chunk_count,
                                        schedule->placement, schedule->microbatch_count);
        const int64_t span =
            bal_span_lower_bound_ns(&at.costs, schedule->rank_count, schedule->chunk_count,
                                    schedule->placement, schedule->microbatch_count);
        if (makespan > metrics.makespan_ns || span > metrics.span_ns) {
            fail_msg("seed %llu: bounds %lld and %lld, played %lld and %lld",
                     (unsigned long long)seed, (long long)makespan, (long long)span,
                     (long long)metrics.makespan_ns, (long long)metrics.span_ns);
        }
    }
}

static void one_forward_one_backward_of_equal_stages_meets_its_bound(void **state)
{
    arena *memory = *state;
    const int64_t memory_fbw[] = {1, -1, 0};
    const bal_stage_costs costs = reference_uniform_costs(4, 10, 20, 0, 3, memory_fbw, memory);
    // The last rank: 3 forwards and messages before it, 8 * 30 of its own, and back.
    assert_int_equal(bal_makespan_lower_bound_ns(&costs, 4, 1, BAL_PLACEMENT_LOOP, 8),
                     3 * 13 + 8 * 30 + 3 * 23);
    assert_int_equal(bal_span_lower_bound_ns(&costs, 4, 1, BAL_PLACEMENT_LOOP, 8), 240);
    assert_int_equal(bal_span_lower_bound_ns(&costs, 4, 1, BAL_PLACEMENT_LOOP, 1), 4 * 30 + 3 * 6);

    const bal_schedule schedule = reference_build("1f1b", 4, 8, 0, memory);
    const bal_stage_costs free_sends = reference_uniform_costs(4, 10, 20, 0, 0, memory_fbw, memory);
    const bal_timeline timeline = reference_play(&schedule, &free_sends, memory);
    assert_int_equal(bal_metrics_of(&timeline).makespan_ns,
                     bal_makespan_lower_bound_ns(&free_sends, 4, 1, BAL_PLACEMENT_LOOP, 8));
}

static void one_microbatch_is_bound_by_its_way(void **state)
{
    arena *memory = *state;
    const int64_t memory_fbw[] = {1, -1, 0};
    const bal_stage_costs costs = reference_uniform_costs(3, 5, 6, 7, 2, memory_fbw, memory);
    assert_int_equal(bal_makespan_lower_bound_ns(&costs, 3, 1, BAL_PLACEMENT_LOOP, 1),
                     3 * 5 + 2 * 2 + 3 * 6 + 2 * 2 + 7);
}

static void bounds_saturate(void **state)
{
    (void)state;
    const int64_t huge[] = {INT64_MAX / 2, INT64_MAX / 2};
    const int64_t none[] = {0, 0};
    const bal_stage_costs costs = {.stage_count = 2,
                                   .microbatch_count = 1,
                                   .forward_ns = huge,
                                   .backward_input_ns = huge,
                                   .backward_weight_ns = huge,
                                   .send_forward_ns = none,
                                   .send_backward_ns = none};
    assert_true(bal_makespan_lower_bound_ns(&costs, 2, 1, BAL_PLACEMENT_LOOP, 1000) == INT64_MAX);
    assert_true(bal_span_lower_bound_ns(&costs, 2, 1, BAL_PLACEMENT_LOOP, 1000) == INT64_MAX);
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

static void no_assignment_beats_its_bound(void **state)
{
    arena *memory = *state;
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
    arena *memory = *state;
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

static void bounds_hold_for_two_pipelines_in_opposite_directions(void **state)
{
    arena *memory = *state;
    rng generator = rng_init(20241101, 0);
    for (int instance = 0; instance < 300; instance++) {
        const int ranks = 2 * (int)rng_between(&generator, 1, 4);
        const int microbatches = 2 * (int)rng_between(&generator, 1, 8);
        bal_stage_costs costs =
            reference_uniform_costs(2 * ranks, 0, 0, 0, 0, (int64_t[]){1, 0, -1}, memory);
        int64_t *const rows[] = {(int64_t *)costs.forward_ns, (int64_t *)costs.backward_input_ns,
                                 (int64_t *)costs.backward_weight_ns,
                                 (int64_t *)costs.send_forward_ns,
                                 (int64_t *)costs.send_backward_ns};
        for (int cell = 0; cell < 5 * 2 * ranks; cell++) {
            rows[cell % 5][cell / 5] = rng_between(&generator, 0, 20);
        }
        const bal_schedule schedule = reference_build("chimera", ranks, microbatches, 2, memory);
        const bal_timeline timeline = reference_play(&schedule, &costs, memory);

        const bal_metrics metrics = bal_metrics_of(&timeline);

        const int64_t makespan_ns = bal_makespan_lower_bound_ns(
            &costs, ranks, 2, BAL_PLACEMENT_BIDIRECTIONAL, schedule.microbatch_count);
        const int64_t span_ns = bal_span_lower_bound_ns(
            &costs, ranks, 2, BAL_PLACEMENT_BIDIRECTIONAL, schedule.microbatch_count);
        assert_true(makespan_ns >= metrics.work_max_ns && makespan_ns <= metrics.makespan_ns);
        assert_true(span_ns >= metrics.work_max_ns && span_ns <= metrics.span_ns);
        arena_reset(memory);
    }
    // Two ranks never wait: 8 F and BW of 10 ns each.
    const bal_stage_costs equal =
        reference_uniform_costs(4, 10, 5, 5, 0, (int64_t[]){1, 0, -1}, memory);
    assert_int_equal(bal_makespan_lower_bound_ns(&equal, 2, 2, BAL_PLACEMENT_BIDIRECTIONAL, 4),
                     8 * 20);
    // One microbatch each way over four: there and back.
    const bal_stage_costs longer =
        reference_uniform_costs(8, 10, 5, 5, 1, (int64_t[]){1, 0, -1}, memory);
    assert_int_equal(bal_makespan_lower_bound_ns(&longer, 4, 2, BAL_PLACEMENT_BIDIRECTIONAL, 1),
                     4 * 10 + 3 * 1 + 4 * 5 + 3 * 1 + 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_order_beats_the_bounds),
        cmocka_unit_test(one_forward_one_backward_of_equal_stages_meets_its_bound),
        cmocka_unit_test(one_microbatch_is_bound_by_its_way),
        cmocka_unit_test(bounds_saturate),
        cmocka_unit_test(no_assignment_beats_its_bound),
        cmocka_unit_test(equal_ranks_are_bound_by_the_mean_and_the_largest_layer),
        cmocka_unit_test(bounds_hold_for_two_pipelines_in_opposite_directions),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
