/// The static engine against the plainest player and its own summary; what it refuses.
#include "balance/metrics.h"
#include "balance/run/iteration_times.h"
#include "sim/dispatch.h"
#include "sim/pipeline.h"
#include "tests/balance/reference_player.h"
#include "tests/sim/random_schedules.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <string.h>

static sim_order compile(const bal_schedule *schedule)
{
    sim_order order = {0};
    require(sim_order_compile(schedule, memory, &order, &why));
    return order;
}

static void assert_summary_of(const sim_summary *summary, const bal_timeline *timeline)
{
    const bal_schedule *schedule = timeline->schedule;
    const bal_metrics metrics = bal_metrics_of(timeline);
    assert_int_equal(summary->makespan_ns, metrics.makespan_ns);
    assert_int_equal(summary->span_ns, metrics.span_ns);
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        const int first = schedule->first_op[rank];
        const int last = schedule->first_op[rank + 1] - 1;
        int64_t busy_ns = 0;
        for (int op = first; op <= last; op++) {
            busy_ns += timeline->end_ns[op] - timeline->begin_ns[op];
        }
        assert_int_equal(summary->busy_ns[rank], busy_ns);
        assert_int_equal(summary->first_begin_ns[rank], timeline->begin_ns[first]);
        assert_int_equal(summary->last_end_ns[rank], timeline->end_ns[last]);
    }
    if (summary->stage_end_ns == NULL) return;
    const int *last_backward = NULL;
    bal_last_backwards(schedule, memory, &last_backward);
    for (int stage = 0; stage < schedule->rank_count * schedule->chunk_count; stage++) {
        assert_int_equal(summary->stage_end_ns[stage], timeline->end_ns[last_backward[stage]]);
    }
}

TEST(random_orders_play_as_the_plainest_player_plays_them)
{
    int paired = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        random_problem problem = random_problem_draw(seed);
        rng generator = rng_init(seed, 2);
        if (seed % 3 == 0) random_delays(&generator, &problem.costs, 20);
        if (seed % 2 == 0 && !random_pairs(&generator, &problem.schedule)) {
            arena_reset(memory);
            continue;
        }
        paired += seed % 2 == 0;
        const size_t op_count = (size_t)problem.schedule.first_op[problem.schedule.rank_count];
        const bal_timeline expected = reference_play(&problem.schedule, &problem.costs);
        sim_order order = compile(&problem.schedule);
        bal_timeline timeline;
        sim_summary summary;
        sim_timeline_init(&problem.schedule, memory, &timeline);
        sim_summary_init(&order, memory, &summary);
        assert_ok(sim_costs_check(&problem.schedule, &problem.costs, NULL));

        sim_order_play(&order, &problem.costs, NULL, &timeline);
        sim_order_summarise(&order, &problem.costs, NULL, &summary);

        if (memcmp(timeline.begin_ns, expected.begin_ns, op_count * sizeof(int64_t)) != 0 ||
            memcmp(timeline.end_ns, expected.end_ns, op_count * sizeof(int64_t)) != 0) {
            fail_msg("seed %llu: another timeline", (unsigned long long)seed);
        }
        assert_summary_of(&summary, &timeline);
        sim_summary_ask_stage_ends(&order, memory, &summary);
        // What starts do to begins is seen beside the event engine, in test_dispatch.c.
        const int64_t *start_ns = random_row(&generator, problem.schedule.rank_count, 900);
        sim_order_play(&order, &problem.costs, start_ns, &timeline);
        sim_order_summarise(&order, &problem.costs, start_ns, &summary);
        assert_summary_of(&summary, &timeline);
        arena_reset(memory);
    }
    assert_true(paired > 1000);
}

TEST(an_order_that_waits_in_a_ring_is_refused_and_touches_nothing)
{
    bal_op ops[] = {{.kind = OP_FORWARD, .microbatch = 1},
                    {.kind = OP_BACKWARD, .microbatch = 1},
                    {.kind = OP_FORWARD},
                    {.kind = OP_BACKWARD},
                    {.kind = OP_FORWARD},
                    {.kind = OP_BACKWARD},
                    {.kind = OP_FORWARD, .microbatch = 1},
                    {.kind = OP_BACKWARD, .microbatch = 1}};
    const int first_op[] = {0, 4, 8};
    const bal_schedule schedule = {
        .rank_count = 2, .chunk_count = 1, .microbatch_count = 2, .first_op = first_op, .ops = ops};
    sim_order order = {.step_count = -7};

    assert_fails_naming(sim_order_compile(&schedule, memory, &order, &why), STATUS_INVALID,
                        "cycle: rank 0 BW1 waits for rank 1 BW1");
    assert_int_equal(order.step_count, -7);
}

TEST(costs_that_do_not_fit_are_refused)
{
    const bal_schedule schedule = reference_build("1f1b", 2, 4, 1);
    const int64_t *const held = (int64_t[]){1, 0, -1};

    bal_stage_costs costs = reference_uniform_costs(3, 1, 1, 1, 0, held);
    assert_fails(sim_costs_check(&schedule, &costs, &why), STATUS_INVALID,
                 "costs of 3 stages for a schedule of 2 stages");

    costs = reference_uniform_costs(2, 1, 1, 1, 0, held);
    costs.microbatch_count = 3;
    assert_fails(sim_costs_check(&schedule, &costs, &why), STATUS_INVALID,
                 "costs of 3 microbatches for a schedule of 4 microbatches");

    costs = reference_uniform_costs(2, 1, -5, 1, 0, held);
    assert_fails(sim_costs_check(&schedule, &costs, &why), STATUS_INVALID,
                 "backward_input_ns of stage 0 is negative: -5 ns");

    // 8 F, 8 BW; then 4 messages forward and 4 backward.
    const int64_t limit = INT64_MAX / 4;
    costs = reference_uniform_costs(2, limit / 8 - 2, 1, 0, 0, held);
    assert_ok(sim_costs_check(&schedule, &costs, &why));
    costs = reference_uniform_costs(2, limit / 8 + 1, 1, 0, 0, held);
    assert_fails(sim_costs_check(&schedule, &costs, &why), STATUS_INVALID,
                 "forward_ns of stage 1: with 288230376151711744 ns all ops and messages of "
                 "the iteration together take longer than 2305843009213693951 ns");
    costs = reference_uniform_costs(2, 0, 0, 0, limit / 4, held);
    assert_fails(sim_costs_check(&schedule, &costs, &why), STATUS_INVALID,
                 "send_backward_ns of stage 1: with 576460752303423487 ns all ops and "
                 "messages of the iteration together take longer than "
                 "2305843009213693951 ns");

    // 4 messages forward, each of stage 0; what stage 1 sends forward and stage 0 back is not sent.
    const int64_t delay_ns[] = {limit / 4, limit, limit, 0};
    costs.message_delay_ns = delay_ns;
    costs.send_forward_ns = costs.send_backward_ns = (int64_t[]){0, 0};
    assert_ok(sim_costs_check(&schedule, &costs, &why));
    costs.message_delay_ns = (int64_t[]){limit / 4, limit, limit, 1};
    assert_fails(sim_costs_check(&schedule, &costs, &why), STATUS_INVALID,
                 "message_delay_ns of B of stage 1: with 1 ns all ops and messages of the "
                 "iteration together take longer than 2305843009213693951 ns");
    costs.message_delay_ns = (int64_t[]){-1, 0, 0, 0};
    assert_fails(sim_costs_check(&schedule, &costs, &why), STATUS_INVALID,
                 "message_delay_ns of F of stage 0 is negative: -1 ns");

    const int64_t large[] = {0, INT64_MIN, 0};
    costs = reference_uniform_costs(2, 0, 0, 0, 0, large);
    assert_fails(sim_costs_check(&schedule, &costs, &why), STATUS_INVALID,
                 "memory_backward_input of stage 0: with -9223372036854775808 the memory of "
                 "4 microbatches adds up to more than 2305843009213693951");
}

TEST(the_longest_times_that_pass_the_check_add_up_exactly)
{
    const bal_schedule schedule = reference_build("gpipe", 1, 1, 1);
    const int64_t limit = INT64_MAX / 4;
    const bal_stage_costs costs =
        reference_uniform_costs(1, limit - 3, 2, 1, 0, (int64_t[]){1, 0, -1});
    sim_order order = compile(&schedule);
    sim_summary summary;
    sim_summary_init(&order, memory, &summary);
    assert_ok(sim_costs_check(&schedule, &costs, NULL));

    sim_order_summarise(&order, &costs, (int64_t[]){INT64_MAX / 2}, &summary);

    assert_true(summary.makespan_ns == limit);
    assert_true(summary.last_end_ns[0] == INT64_MAX / 2 + limit);
}

/// Costs of so many microbatches are asked for ahead of time; the event engine does not.
TEST(costs_beyond_cache_are_played_as_all_others)
{
    enum { RANKS = 64, MICROBATCHES = 6000 };
    rng generator = rng_init(1, 14);
    const bal_schedule schedule = reference_build("1f1b", RANKS, MICROBATCHES, 1);
    const bal_stage_costs costs = random_costs(&generator, RANKS, MICROBATCHES, 1000000, 1000);
    sim_order order = compile(&schedule);
    sim_dispatch *dispatch = NULL;
    bal_timeline timeline;
    bal_timeline expected;
    sim_timeline_init(&schedule, memory, &timeline);
    assert_ok(sim_dispatch_create(&schedule, SIM_STATIC, NULL, memory, &dispatch, NULL));

    sim_order_play(&order, &costs, NULL, &timeline);

    assert_ok(sim_dispatch_play(dispatch, &costs, NULL, NULL, &expected, NULL));
    const size_t bytes = (size_t)schedule.first_op[RANKS] * sizeof(int64_t);
    assert_memory_equal(timeline.begin_ns, expected.begin_ns, bytes);
    assert_memory_equal(timeline.end_ns, expected.end_ns, bytes);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
