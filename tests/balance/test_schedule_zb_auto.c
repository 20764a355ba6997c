/// The searched order on seeded random costs and limits: it can be played, stays within every
/// rank's memory, is no worse than the hand orders where they fit, and never beats the work of the
/// busiest rank.
#include "balance/metrics.h"
#include "base/rng.h"
#include "tests/balance/reference_player.h"

#include <stdio.h>
#include <string.h>

static status search(int ranks, int microbatches, const bal_stage_costs *costs,
                     const int64_t *memory_limit, arena *memory, bal_schedule *schedule,
                     error_message *err)
{
    const bal_schedule_request request = {.name = "zb-auto",
                                          .rank_count = ranks,
                                          .microbatch_count = microbatches,
                                          .costs = costs,
                                          .memory_limit = memory_limit};
    return bal_schedule_build(&request, memory, schedule, err);
}

static int64_t *random_row(rng *generator, int count, int64_t low, int64_t high, arena *memory)
{
    int64_t *row = arena_array(memory, (size_t)count, sizeof *row);
    for (int index = 0; index < count; index++) {
        row[index] = rng_between(generator, low, high);
    }
    return row;
}

/// @param columns 1, or the microbatches where times vary by them
static bal_stage_costs random_costs(rng *generator, int ranks, int columns, arena *memory)
{
    const int64_t high = rng_below(generator, 2) == 0 ? 10 : 3000;
    int64_t *forward = random_row(generator, ranks, 1, 5, memory);
    int64_t *weight = random_row(generator, ranks, -3, 0, memory);
    int64_t *input = arena_array(memory, (size_t)ranks, sizeof *input);
    for (int rank = 0; rank < ranks; rank++) {
        input[rank] = -forward[rank] - weight[rank];
    }
    return (bal_stage_costs){
        .stage_count = ranks,
        .microbatch_count = columns,
        .forward_ns = random_row(generator, ranks * columns, 0, high, memory),
        .backward_input_ns = random_row(generator, ranks * columns, 0, high, memory),
        .backward_weight_ns = random_row(generator, ranks * columns, 0, high, memory),
        .send_forward_ns = random_row(generator, ranks, 0, high / 4, memory),
        .send_backward_ns = random_row(generator, ranks, 0, high / 4, memory),
        .memory_forward = forward,
        .memory_backward_input = input,
        .memory_backward_weight = weight,
    };
}

/// What one rank needs for one microbatch.
static int64_t least_memory(const bal_stage_costs *costs, int rank)
{
    const int64_t input = costs->memory_backward_input[rank];
    return costs->memory_forward[rank] + (input > 0 ? input : 0);
}

static bool fits(const bal_schedule *schedule, const bal_stage_costs *costs,
                 const int64_t *memory_limit)
{
    int64_t peak[32];
    bal_memory_peak(schedule, costs, peak);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        if (peak[rank] > memory_limit[rank]) return false;
    }
    return true;
}

static void random_searches_stay_within_memory_and_beat_the_hand_orders(void **state)
{
    (void)state;
    const uint64_t seed = 20231130;
    rng generator = rng_init(seed, 0);
    arena *memory = arena_create(1 << 20);
    for (int instance = 0; instance < 1500; instance++) {
        const int ranks = (int)rng_between(&generator, 1, 9);
        const int microbatches = (int)rng_between(&generator, 1, 24);
        const int columns = rng_below(&generator, 3) == 0 ? microbatches : 1;
        const bal_stage_costs costs = random_costs(&generator, ranks, columns, memory);
        int64_t *limit = arena_array(memory, (size_t)ranks, sizeof *limit);
        for (int rank = 0; rank < ranks; rank++) {
            limit[rank] = least_memory(&costs, rank) + rng_between(&generator, 0, 8L * ranks);
        }
        bal_schedule schedule;
        error_message err = {0};

        const status result = search(ranks, microbatches, &costs, limit, memory, &schedule, &err);

        if (result != STATUS_OK)
            fail_msg("seed %d instance %d: %s", (int)seed, instance, err.message);
        if (bal_schedule_check(&schedule, NULL, &err) != STATUS_OK) {
            fail_msg("seed %d instance %d: %s", (int)seed, instance, err.message);
        }
        assert_true(fits(&schedule, &costs, limit));
        const bal_timeline timeline = reference_play(&schedule, &costs, memory);
        const bal_metrics metrics = bal_metrics_of(&timeline);
        assert_true(metrics.makespan_ns >= metrics.span_ns);
        assert_true(metrics.span_ns >= metrics.work_max_ns);
        for (int hand = 0; hand < 2 && columns == 1; hand++) {
            const bal_schedule order =
                reference_build(hand == 0 ? "zb-h1" : "zb-h2", ranks, microbatches, 1, memory);
            if (!fits(&order, &costs, limit)) continue;
            const bal_timeline played = reference_play(&order, &costs, memory);
            assert_true(metrics.span_ns <= bal_metrics_of(&played).span_ns);
        }
        arena_reset(memory);
    }
    arena_destroy(memory);
}

static void a_limit_below_one_microbatch_is_infeasible_by_name(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 12);
    const bal_stage_costs costs =
        reference_uniform_costs(3, 1, 1, 1, 0, (int64_t[]){4, 2, -6}, memory);
    const int64_t limit[] = {6, 5, 6};
    bal_schedule schedule = {.rank_count = -7};
    error_message err = {0};

    assert_int_equal(search(3, 4, &costs, limit, memory, &schedule, &err), STATUS_INFEASIBLE);

    assert_string_equal(err.message, "rank 1 needs memory 6 for one microbatch; its limit is 5");
    assert_int_equal(schedule.rank_count, -7);
    arena_destroy(memory);
}

static void costs_that_do_not_fit_are_refused_by_name(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 12);
    bal_schedule schedule;
    error_message err = {0};
    assert_int_equal(search(2, 4, NULL, NULL, memory, &schedule, &err), STATUS_INVALID);
    assert_string_equal(err.message, "schedule zb-auto is searched and needs costs");

    bal_stage_costs costs = reference_uniform_costs(3, 1, 1, 1, 0, (int64_t[]){1, 0, -1}, memory);
    assert_int_equal(search(2, 4, &costs, NULL, memory, &schedule, &err), STATUS_INVALID);
    assert_string_equal(err.message, "costs of 3 stages for 2 ranks of 1 chunks");
    costs.microbatch_count = 3;
    assert_int_equal(search(3, 4, &costs, NULL, memory, &schedule, &err), STATUS_INVALID);
    assert_string_equal(err.message, "costs of 3 microbatches for microbatch_count 4");

    costs = reference_uniform_costs(2, 1, -5, 1, 0, (int64_t[]){1, 0, -1}, memory);
    assert_int_equal(search(2, 4, &costs, NULL, memory, &schedule, &err), STATUS_INVALID);
    assert_string_equal(err.message,
                        "backward_input_ns of stage 0: -5 ns is negative or makes the sum over the "
                        "microbatches longer than 2305843009213693951 ns");
    costs = reference_uniform_costs(2, INT64_MAX / 4, 1, 1, 0, (int64_t[]){1, 0, -1}, memory);
    assert_int_equal(search(2, 4, &costs, NULL, memory, &schedule, &err), STATUS_INVALID);
    assert_string_equal(err.message, "stage 0: its times are negative or sum to more than "
                                     "288230376151711743 ns for one microbatch");

    const int64_t limit[] = {9, 9};
    costs = reference_uniform_costs(2, 1, 1, 1, 0, (int64_t[]){1, 0, 0}, memory);
    assert_int_equal(search(2, 4, &costs, limit, memory, &schedule, &err), STATUS_INVALID);
    assert_string_equal(err.message,
                        "memory of stage 0 changes by 1, 0, 0 at F, B, W: F must take, "
                        "W must give, and the sum be 0");
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_searches_stay_within_memory_and_beat_the_hand_orders),
        cmocka_unit_test(a_limit_below_one_microbatch_is_infeasible_by_name),
        cmocka_unit_test(costs_that_do_not_fit_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
