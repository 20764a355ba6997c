/// v-adaptive: against the bubble that its authors' code prints for every memory, against the two
/// fixed orders that are blocks too, and against itself with less memory, on equal and on random
/// stages; limits below every block; every order played by the plainest player.
#include "balance/metrics.h"
#include "base/rng.h"
#include "tests/balance/reference_player.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

enum { RANKS_MAX = 8 };

typedef struct adaptive_run {
    status result;
    bal_metrics metrics;
    int64_t peak[RANKS_MAX];
    bal_schedule schedule;
    error_message err;
} adaptive_run;

/// Builds and plays v-adaptive within limits of the ranks.
static adaptive_run build(const bal_stage_costs *costs, int ranks, int microbatches,
                          const int64_t *limit)
{
    adaptive_run run = {0};
    const bal_schedule_request request = {.name = "v-adaptive",
                                          .rank_count = ranks,
                                          .microbatch_count = microbatches,
                                          .costs = costs,
                                          .memory_limit = limit};
    run.result = bal_schedule_build(&request, memory, &run.schedule, &run.err);
    if (run.result != STATUS_OK) return run;
    assert_ok(bal_schedule_check(&run.schedule, NULL));
    const bal_timeline timeline = reference_play(&run.schedule, costs);
    run.metrics = bal_metrics_of(&timeline);
    bal_memory_peak(&run.schedule, costs, run.peak);
    for (int rank = 0; limit != NULL && rank < ranks; rank++) {
        assert_true(run.peak[rank] <= limit[rank]);
    }
    return run;
}

static bal_stage_costs equal_costs(int ranks)
{
    return reference_uniform_costs(2 * ranks, 1, 1, 1, 0, (int64_t[]){1, 0, -1});
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

TEST(equal_stages_idle_no_longer_than_the_published_bubble)
{
    int built = 0;
    for (int ranks = 2; ranks <= RANKS_MAX; ranks++) {
        const int least = 2 * ((ranks + 4) / 3);
        for (int held = least; held <= 2 * ranks; held++) {
            const int microbatches = 2 * ranks + held % 3;
            const bal_stage_costs costs = equal_costs(ranks);
            const int64_t *limit = reference_row(&(int64_t){held}, ranks, true);

            const adaptive_run run = build(&costs, ranks, microbatches, limit);

            assert_ok(run.result);
            const int64_t bubble =
                3 * ranks - 1 - 3 * held + larger(3 * ranks, ranks - 1 + 2 * (1 + (held + 1) / 2));
            if (run.metrics.span_ns > 6 * microbatches + bubble) {
                fail_msg("P=%d M=%d, %d chunks: %lld slots idle, %lld are published", ranks,
                         microbatches, held, (long long)(run.metrics.span_ns - 6 * microbatches),
                         (long long)bubble);
            }
            arena_reset(memory);
            built++;
        }
    }
    assert_int_equal(built, 39);
}

static bal_stage_costs random_costs(rng *generator, int ranks)
{
    bal_stage_costs costs = reference_uniform_costs(2 * ranks, 0, 0, 0, 0, (int64_t[]){0, 0, 0});
    int64_t *const rows[] = {
        (int64_t *)costs.forward_ns,           (int64_t *)costs.backward_input_ns,
        (int64_t *)costs.backward_weight_ns,   (int64_t *)costs.send_forward_ns,
        (int64_t *)costs.send_backward_ns,     (int64_t *)costs.memory_forward,
        (int64_t *)costs.memory_backward_input};
    for (int stage = 0; stage < 2 * ranks; stage++) {
        for (int row = 0; row < 3; row++) {
            rows[row][stage] = rng_between(generator, 1, 30);
        }
        rows[3][stage] = rng_between(generator, 0, 3);
        rows[4][stage] = rng_between(generator, 0, 3);
        rows[5][stage] = rng_between(generator, 10, 40);
        rows[6][stage] = -rng_between(generator, 0, 10);
        ((int64_t *)costs.memory_backward_weight)[stage] = -rows[5][stage] - rows[6][stage];
    }
    return costs;
}

TEST(more_memory_never_makes_it_longer)
{
    rng generator = rng_init(20241012, 0);
    int compared = 0;
    for (int instance = 0; instance < 30; instance++) {
        const int ranks = (int)rng_between(&generator, 1, 6);
        const int microbatches = (int)rng_between(&generator, 1, 3 * ranks);
        const bal_stage_costs costs = random_costs(&generator, ranks);
        int64_t limit[RANKS_MAX];
        for (int rank = 0; rank < ranks; rank++) {
            limit[rank] = rng_between(&generator, 60, 200);
        }
        int64_t span_ns = INT64_MAX;
        for (int step = 0; step < 8; step++) {
            const adaptive_run run = build(&costs, ranks, microbatches, limit);
            if (run.result == STATUS_OK) {
                if (run.metrics.span_ns > span_ns) {
                    fail_msg("instance %d: span %lld with less memory, %lld with more", instance,
                             (long long)span_ns, (long long)run.metrics.span_ns);
                }
                compared += span_ns != INT64_MAX;
                span_ns = run.metrics.span_ns;
            } else {
                assert_int_equal(run.result, STATUS_INFEASIBLE);
                assert_int_equal(span_ns, INT64_MAX); // what fitted once fits again
            }
            for (int rank = 0; rank < ranks; rank++) {
                limit[rank] += rng_between(&generator, 0, 50);
            }
        }
        arena_reset(memory);
    }
    assert_true(compared > 100);
}

TEST(it_is_never_longer_than_a_fixed_block_in_its_memory)
{
    static const char *const blocks[] = {"v-half", "v-min"};
    rng generator = rng_init(20241013, 0);
    for (int instance = 0; instance < 40; instance++) {
        const int ranks = (int)rng_between(&generator, 1, 7);
        const int microbatches = (int)rng_between(&generator, 1, 3 * ranks);
        const bal_stage_costs costs = random_costs(&generator, ranks);
        const bal_schedule fixed = reference_build(blocks[instance % 2], ranks, microbatches, 2);
        const bal_timeline timeline = reference_play(&fixed, &costs);
        int64_t limit[RANKS_MAX];
        bal_memory_peak(&fixed, &costs, limit);

        const adaptive_run run = build(&costs, ranks, microbatches, limit);

        assert_ok(run.result);
        assert_true(run.metrics.span_ns <= bal_metrics_of(&timeline).span_ns);
        arena_reset(memory);
    }
}

TEST(a_limit_below_every_block_is_named)
{
    const bal_stage_costs costs = equal_costs(4);

    const adaptive_run few = build(&costs, 4, 8, (int64_t[]){3, 3, 3, 3});
    const adaptive_run one = build(&costs, 4, 8, (int64_t[]){8, 8, 3, 8});
    const adaptive_run none = build(&costs, 4, 8, (int64_t[]){8, 1, 8, 8});

    assert_int_equal(few.result, STATUS_INFEASIBLE);
    assert_string_equal(few.err.message,
                        "rank 0 needs memory 4 under the order of v-adaptive that is nearest to "
                        "fitting; its limit is 3");
    assert_int_equal(one.result, STATUS_INFEASIBLE);
    assert_string_equal(one.err.message,
                        "rank 2 needs memory 4 under the order of v-adaptive that is nearest to "
                        "fitting; its limit is 3");
    assert_int_equal(none.result, STATUS_INFEASIBLE);
    assert_string_equal(none.err.message,
                        "rank 1 needs memory 2 for one microbatch; its limit is 1");
}

TEST(a_rank_with_less_memory_narrows_the_blocks_for_all)
{
    const bal_stage_costs costs = equal_costs(6);

    const adaptive_run all = build(&costs, 6, 18, (int64_t[]){12, 12, 12, 12, 12, 12});
    const adaptive_run one = build(&costs, 6, 18, (int64_t[]){12, 12, 6, 12, 12, 12});

    assert_int_equal(all.metrics.span_ns, 6 * 18);
    assert_ok(one.result);
    assert_true(one.peak[2] <= 6);
    assert_true(one.metrics.span_ns > 6 * 18 && one.metrics.span_ns <= 6 * 18 + 17);
}

TEST(the_same_request_has_the_same_order)
{
    rng generator = rng_init(20241014, 0);
    const bal_stage_costs costs = random_costs(&generator, 5);

    const adaptive_run first = build(&costs, 5, 12, NULL);
    const adaptive_run second = build(&costs, 5, 12, NULL);

    assert_memory_equal(first.schedule.ops, second.schedule.ops,
                        (size_t)first.schedule.first_op[5] * sizeof(bal_op));
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
