/// Tests of balance/costs/disturbance.h: the numbers drawn are the same everywhere and have the
/// moments that they are said to have; ranks are slowed as said; limits are refused by name.
#include "balance/costs/disturbance.h"

#include "tests/test.h"

#include <math.h>
#include <string.h>

enum { RANKS = 6, DRAWS = 200000 };

TEST(normal_numbers_have_mean_0_and_variance_1_and_end_at_6)
{
    rng generator = bal_disturbance_stream(7, BAL_DRAW_OP, 3, 11);
    double sum = 0;
    double squares = 0;
    double fourth = 0;
    double largest = 0;

    for (int draw = 0; draw < DRAWS; draw++) {
        const double z = rng_normal(&generator);
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
        largest = fmax(largest, fabs(z));
    }

    assert_true(fabs(sum / DRAWS) < 0.01); // 4 deviations of the mean
    assert_close(squares / DRAWS, 1.0, 0.01);
    assert_close(fourth / DRAWS, 2.9, 0.03); // kurtosis of a sum of twelve: 3 - 1.2 / 12
    assert_true(largest < 6 && largest > 3.5);
}

TEST(numbers_are_the_same_on_every_machine)
{
    rng generator = bal_disturbance_stream(42, BAL_DRAW_MESSAGE, 9, 5);
    int64_t found[3];

    for (int draw = 0; draw < 3; draw++) {
        found[draw] = (int64_t)(rng_normal(&generator) * 65536);
    }

    const int64_t expected[] = {44999, 21227, 34952};
    assert_memory_equal(found, expected, sizeof found);
}

TEST(a_disturbance_of_nothing_slows_nobody)
{
    const bal_disturbance none = {.seed = 5};
    double factor[RANKS] = {1, 2, 3, 4, 5, 6};
    const double before[RANKS] = {1, 2, 3, 4, 5, 6};

    bal_disturbance_slow_ranks(&none, RANKS, 17, factor);

    assert_memory_equal(factor, before, sizeof factor);
    assert_false(bal_disturbance_has_rank_factors(&none));
    assert_false(bal_disturbance_is_drawn_per_op(&none));
    assert_false(bal_disturbance_changes_links(&none, 0));
}

static void factors(const bal_disturbance *disturbance, int iteration, double *factor)
{
    for (int rank = 0; rank < RANKS; rank++) {
        factor[rank] = 1;
    }
    bal_disturbance_slow_ranks(disturbance, RANKS, iteration, factor);
}

TEST(factors_of_ranks_last_and_those_of_iterations_do_not)
{
    const bal_disturbance lasting = {.seed = 1, .rank_sigma = 0.1};
    const bal_disturbance passing = {.seed = 1, .iteration_sigma = 0.1};
    const bal_disturbance other_seed = {.seed = 2, .rank_sigma = 0.1};
    double first[RANKS];
    double later[RANKS];

    factors(&lasting, 0, first);
    factors(&lasting, 100, later);
    assert_memory_equal(first, later, sizeof first);
    assert_true(first[0] != first[1]);
    factors(&other_seed, 0, later);
    assert_true(memcmp(first, later, sizeof first) != 0);
    factors(&passing, 0, first);
    factors(&passing, 1, later);
    for (int rank = 0; rank < RANKS; rank++) {
        assert_true(first[rank] != later[rank]);
    }
    factors(&passing, 0, later); // again, asked in another order
    assert_memory_equal(first, later, sizeof first);
}

TEST(stragglers_begin_as_often_as_said_and_stay_as_long_as_said)
{
    enum { ITERATIONS = 4000, STAY = 5 };
    const bal_disturbance disturbance = {.seed = 3,
                                         .straggler_probability = 0.01,
                                         .straggler_factor = 2.5,
                                         .straggler_iterations = STAY};
    int slow = 0;
    int run[RANKS] = {0};
    int shortest = ITERATIONS;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        double factor[RANKS];
        factors(&disturbance, iteration, factor);
        for (int rank = 0; rank < RANKS; rank++) {
            assert_true(factor[rank] == 1.0 || factor[rank] == 2.5);
            if (factor[rank] == 2.5) {
                slow++;
                run[rank]++;
            } else {
                if (run[rank] > 0 && run[rank] < shortest) shortest = run[rank];
                run[rank] = 0;
            }
        }
    }

    assert_int_equal(shortest, STAY);
    const double expected = 1 - pow(0.99, STAY);
    assert_close((double)slow / (RANKS * ITERATIONS), expected, 0.1);
}

TEST(links_change_where_an_interval_begins_or_ends)
{
    const bal_disturbed_link link = {
        .rank = 0, .other_rank = 1, .time_factor = 4, .first_iteration = 3, .end_iteration = 8};
    const bal_disturbance disturbance = {.links = &link, .link_count = 1};

    for (int iteration = 0; iteration < 12; iteration++) {
        assert_int_equal(bal_disturbance_changes_links(&disturbance, iteration),
                         iteration == 3 || iteration == 8);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
