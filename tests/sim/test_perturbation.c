/// Tests of sim/perturbation.h: what is drawn has the mean and the deviation that is asked for,
/// does not depend on what was asked before, and messages are as late as their links and factors
/// say.
#include "sim/perturbation.h"

#include "sim/costs.h"
#include "tests/balance/reference_player.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <math.h>
#include <string.h>

enum { RANKS = 4, MICROBATCHES = 2000 };

/// A pipeline of equal stages.
typedef struct case_of {
    bal_schedule schedule;
    bal_stage_costs costs;
} case_of;

static const int64_t *filled(int count, int64_t value)
{
    return reference_row(&value, count, true);
}

static case_of make_case(int microbatches)
{
    case_of made = {
        .schedule = reference_build("zb-h1", RANKS, microbatches, 0),
        .costs = reference_uniform_costs(RANKS, 100000, 110000, 90000, 1000, (int64_t[]){0, 0, 0})};
    made.costs.send_backward_ns = filled(RANKS, 2000);
    return made;
}

static bal_stage_costs perturb(const case_of *of, const bal_disturbance *disturbance,
                               const sim_perturbed_play *play)
{
    bal_stage_costs out;
    sim_perturb(disturbance, &of->schedule, play, &of->costs, memory, &out);
    assert_ok(sim_costs_check(&of->schedule, &out, &why));
    return out;
}

TEST(a_disturbance_of_nothing_leaves_costs_as_they_are)
{
    case_of of = make_case(8);
    const bal_disturbance none = {.seed = 9};
    const sim_perturbed_play play = {.iteration = 4};

    const bal_stage_costs out = perturb(&of, &none, &play);

    assert_memory_equal(&out, &of.costs, sizeof out);
}

TEST(ops_have_the_mean_and_the_deviation_asked_for)
{
    case_of of = make_case(MICROBATCHES);
    const bal_disturbance disturbance = {.seed = 9, .op_sigma = 0.1};
    const sim_perturbed_play play = {.iteration = 4};

    const bal_stage_costs out = perturb(&of, &disturbance, &play);

    const int64_t *const rows[] = {out.forward_ns, out.backward_input_ns, out.backward_weight_ns};
    const double means[] = {100000, 110000, 90000};
    assert_int_equal(out.microbatch_count, MICROBATCHES);
    assert_null(out.message_delay_ns);
    for (int kind = 0; kind < 3; kind++) {
        double sum = 0;
        double squares = 0;
        for (int cell = 0; cell < RANKS * MICROBATCHES; cell++) {
            const double off = (double)rows[kind][cell] - means[kind];
            sum += off;
            squares += off * off;
        }
        const int count = RANKS * MICROBATCHES;
        assert_true(fabs(sum / count) < 0.1 * means[kind] * 4 / sqrt(count));
        assert_close(sqrt(squares / count), 0.1 * means[kind], 0.04);
    }
    assert_true(rows[0][0] != rows[0][MICROBATCHES]); // stages are drawn apart
    assert_true(rows[0][0] - 100000 != rows[1][0] - 110000);
}

TEST(plays_have_draws_of_their_own_in_any_order_of_asking)
{
    case_of of = make_case(8);
    const bal_disturbance disturbance = {.seed = 9,
                                         .op_sigma = 0.1,
                                         .message_factor = 2,
                                         .message_sigma = 1,
                                         .message_factor_max = 4};
    const sim_perturbed_play plays[] = {{.iteration = 4},
                                        {.iteration = 5},
                                        {.iteration = 4, .round = 1},
                                        {.iteration = 4, .replica = 1}};
    const size_t ops = RANKS * 8 * sizeof(int64_t);
    bal_stage_costs there[4];
    bal_stage_costs back[4];
    for (int play = 0; play < 4; play++) {
        there[play] = perturb(&of, &disturbance, &plays[play]);
    }
    for (int play = 3; play >= 0; play--) {
        back[play] = perturb(&of, &disturbance, &plays[play]);
    }

    for (int play = 0; play < 4; play++) {
        assert_memory_equal(there[play].forward_ns, back[play].forward_ns, ops);
        assert_memory_equal(there[play].backward_weight_ns, back[play].backward_weight_ns, ops);
        assert_memory_equal(there[play].message_delay_ns, back[play].message_delay_ns, 2 * ops);
        if (play == 0) continue;
        assert_true(memcmp(there[play].forward_ns, there[0].forward_ns, ops) != 0);
        assert_true(memcmp(there[play].message_delay_ns, there[0].message_delay_ns, ops) != 0);
    }
}

TEST(large_deviations_end_at_no_time_at_all)
{
    case_of of = make_case(MICROBATCHES);
    const bal_disturbance disturbance = {.seed = 9, .op_sigma = 1};
    const sim_perturbed_play play = {0};

    const bal_stage_costs out = perturb(&of, &disturbance, &play);

    int at_zero = 0;
    for (int cell = 0; cell < RANKS * MICROBATCHES; cell++) {
        assert_true(out.forward_ns[cell] >= 0);
        at_zero += out.forward_ns[cell] == 0;
    }
    assert_close((double)at_zero / (RANKS * MICROBATCHES), 0.1587, 0.1); // P(z <= -1)
}

TEST(messages_without_deviation_take_their_factor)
{
    case_of of = make_case(8);
    const bal_disturbance disturbance = {.message_factor = 3, .message_factor_max = 4};
    const bal_disturbance beyond = {.message_factor = 9, .message_factor_max = 4};
    const bal_disturbance below = {.message_factor = 0.5, .message_factor_max = 4};
    const sim_perturbed_play play = {0};

    const bal_stage_costs thrice = perturb(&of, &disturbance, &play);
    const bal_stage_costs most = perturb(&of, &beyond, &play);
    const bal_stage_costs least = perturb(&of, &below, &play);

    for (int stage = 0; stage < RANKS; stage++) {
        for (int microbatch = 0; microbatch < 8; microbatch++) {
            const int forward = stage * 8 + microbatch;
            const int backward = (RANKS + stage) * 8 + microbatch;
            const bool has_next = stage < RANKS - 1;
            const bool has_last = stage > 0;
            assert_int_equal(thrice.message_delay_ns[forward], has_next ? 2000 : 0);
            assert_int_equal(thrice.message_delay_ns[backward], has_last ? 4000 : 0);
            assert_int_equal(most.message_delay_ns[forward], has_next ? 3000 : 0);
            assert_int_equal(least.message_delay_ns[backward], 0);
            assert_int_equal(thrice.forward_ns[forward], 100000); // the ops are as they were
        }
    }
}

TEST(disturbed_links_are_slow_in_both_directions_while_it_lasts)
{
    case_of of = make_case(8);
    const bal_placed_partition plan = {
        .rank_count = 4, .chunk_count = 1, .machine_rank = (const int[]){6, 5, 2, 1}};
    const bal_disturbed_link links[] = {{.rank = 2,
                                         .other_rank = 5,
                                         .time_factor = 4,
                                         .delay_ns = 7,
                                         .first_iteration = 3,
                                         .end_iteration = 5}};
    const bal_disturbance disturbance = {.links = links, .link_count = 1};
    for (int64_t iteration = 0; iteration < 8; iteration++) {
        const sim_perturbed_play play = {.iteration = iteration, .plan = &plan};
        const bool is_slow = iteration == 3 || iteration == 4;

        const bal_stage_costs out = perturb(&of, &disturbance, &play);

        assert_int_equal(out.microbatch_count, 1);
        assert_int_equal(out.send_forward_ns[0], 1000);
        assert_int_equal(out.send_forward_ns[1], is_slow ? 4007 : 1000);
        assert_int_equal(out.send_forward_ns[2], 1000);
        assert_int_equal(out.send_backward_ns[1], 2000);
        assert_int_equal(out.send_backward_ns[2], is_slow ? 8007 : 2000);
        assert_int_equal(out.send_backward_ns[3], 2000);
    }
}

TEST(delays_that_are_there_already_stay)
{
    case_of of = make_case(8);
    of.costs.message_delay_ns = filled(2 * RANKS, 11);
    const bal_disturbance messages = {.message_factor = 2, .message_factor_max = 4};
    const bal_disturbance ops = {.op_sigma = 0.1};
    const sim_perturbed_play play = {0};

    const bal_stage_costs later = perturb(&of, &messages, &play);
    const bal_stage_costs same = perturb(&of, &ops, &play);

    assert_int_equal(later.message_delay_ns[7], 1011);
    assert_int_equal(same.message_delay_ns[7], 11);
}

TEST(times_that_would_not_fit_are_left_for_the_check_to_refuse)
{
    case_of of = make_case(8);
    const bal_disturbed_link link = {
        .rank = 0, .other_rank = 1, .time_factor = 1000, .end_iteration = 1};
    const bal_disturbance disturbance = {.links = &link, .link_count = 1};
    const bal_placed_partition plan = {.rank_count = 4, .chunk_count = 1};
    const sim_perturbed_play play = {.plan = &plan};
    bal_stage_costs out;
    of.costs.send_forward_ns = filled(RANKS, INT64_MAX / 512);

    sim_perturb(&disturbance, &of.schedule, &play, &of.costs, memory, &out);

    assert_int_equal(out.send_forward_ns[0], INT64_MAX / 4);
    assert_int_equal(sim_costs_check(&of.schedule, &out, &why), STATUS_INVALID);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
