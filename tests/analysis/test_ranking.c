/// Points ranked over draws: intervals that hold what they promise, paired differences beside
/// unpaired ones, and the truth table of what cannot be told apart.
#include "analysis/whatif/standing.h"
#include "base/rng.h"
#include "tests/assert_close.h"

#include <math.h>

enum { DRAWS = 400, POINTS_MAX = 5 };

static arena *open_arena(void)
{
    arena *memory = arena_create(1 << 16);
    assert_non_null(memory);
    return memory;
}

static void rank(const double *values, int point_count, int draw_count, ana_ranked *standings)
{
    arena *memory = open_arena();
    const ana_losses losses = {values, point_count, draw_count};
    ana_rank(&losses, memory, standings);
    arena_destroy(memory);
}

static void quantiles_lie_between_the_draws_beside_them(void **state)
{
    (void)state;
    const double values[] = {50, 10, 40, 20, 30};
    double scratch[5];

    const ana_error_bar interval = ana_error_bar_of(values, 5, scratch);

    assert_close(interval.low, 12, 1e-12);
    assert_close(interval.middle, 30, 1e-12);
    assert_close(interval.high, 48, 1e-12);
    assert_close(ana_error_bar_of(values, 1, scratch).high, 50, 0);
}

static void what_does_not_fit_in_enough_draws_has_no_upper_end(void **state)
{
    (void)state;
    const double values[] = {1, INFINITY, 2, INFINITY, 3};
    double scratch[5];

    const ana_error_bar interval = ana_error_bar_of(values, 5, scratch);

    assert_close(interval.low, 1.2, 1e-12);
    assert_close(interval.middle, 3, 1e-12);
    assert_true(isinf(interval.high));
}

/// Two points share an input that moves both by far more than they differ.
static void fill_shared(double *values, double ratio, double noise)
{
    rng random = rng_init(3, 0);
    for (int draw = 0; draw < DRAWS; draw++) {
        const double shared = 50 + 100 * rng_unit(&random);
        values[draw] = shared * (1 + noise * (rng_unit(&random) - 0.5));
        values[DRAWS + draw] = ratio * shared * (1 + noise * (rng_unit(&random) - 0.5));
    }
}

static void paired_differences_tell_apart_what_intervals_do_not(void **state)
{
    (void)state;
    static double values[2 * DRAWS];
    ana_ranked standings[2];
    fill_shared(values, 1.05, 0.01);

    rank(values, 2, DRAWS, standings);

    assert_int_equal(standings[0].point, 0);
    assert_true(standings[1].behind.low > 0.04 && standings[1].behind.high < 0.06);
    assert_int_equal(standings[1].group, 2);
    assert_close(standings[0].best_probability, 1, 1e-12);
}

static void a_difference_below_its_noise_is_indistinguishable(void **state)
{
    (void)state;
    static double values[2 * DRAWS];
    ana_ranked standings[2];
    fill_shared(values, 1.002, 0.1);

    rank(values, 2, DRAWS, standings);

    assert_int_equal(standings[0].group, 1);
    assert_int_equal(standings[1].group, 1);
    assert_true(standings[0].best_probability > 0.4 && standings[0].best_probability < 0.65);
}

/// Differences of a second point to the first, steady over the draws but for a spread.
static int group_of_second(double shift, double spread)
{
    static double values[2 * DRAWS];
    ana_ranked standings[2];
    for (int draw = 0; draw < DRAWS; draw++) {
        const double unit = (double)draw / (DRAWS - 1) - 0.5;
        values[draw] = 100;
        values[DRAWS + draw] = 100 * (1 + shift + spread * unit);
    }
    rank(values, 2, DRAWS, standings);
    return standings[1].group;
}

static void the_truth_table_of_indistinguishable_holds(void **state)
{
    (void)state;

    assert_int_equal(group_of_second(0, 0), 1);      // the same
    assert_int_equal(group_of_second(1e-6, 0), 2);   // little, and always
    assert_int_equal(group_of_second(0.01, 0.1), 1); // 0 within 90 %: -3.5 .. 5.5 %
    assert_int_equal(group_of_second(0.05, 0.1), 2); // 0.5 .. 9.5 %
}

static void groups_begin_with_the_best_that_is_left(void **state)
{
    (void)state;
    const double values[] = {
        120, 121, 122, // third
        100, 101, 102, // best
        120, 122, 121, // like the third
        101, 100, 102, // like the best
        150, 150, 150, // alone
    };
    ana_ranked standings[POINTS_MAX];

    rank(values, 5, 3, standings);

    const int points[] = {1, 3, 0, 2, 4};
    const int groups[] = {1, 1, 2, 2, 3};
    for (int place = 0; place < 5; place++) {
        assert_int_equal(standings[place].point, points[place]);
        assert_int_equal(standings[place].group, groups[place]);
    }
}

static void draws_that_tie_are_shared(void **state)
{
    (void)state;
    const double values[] = {1, 2, 3, 4, 1, 2, 4, 3};
    ana_ranked standings[2];

    rank(values, 2, 4, standings);

    assert_close(standings[0].best_probability, 0.5, 1e-12);
    assert_close(standings[1].best_probability, 0.5, 1e-12);
}

static void a_point_that_sometimes_does_not_fit_comes_last(void **state)
{
    (void)state;
    const double values[] = {1, 1, INFINITY, 1, 9, 9, 9, 9};
    ana_ranked standings[2];

    rank(values, 2, 4, standings);

    assert_int_equal(standings[0].point, 1);
    assert_close(standings[1].infeasible_ratio, 0.25, 1e-12);
    assert_close(standings[1].best_probability, 0.75, 1e-12);
    assert_true(isinf(standings[1].mean));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_lie_between_the_draws_beside_them),
        cmocka_unit_test(what_does_not_fit_in_enough_draws_has_no_upper_end),
        cmocka_unit_test(paired_differences_tell_apart_what_intervals_do_not),
        cmocka_unit_test(a_difference_below_its_noise_is_indistinguishable),
        cmocka_unit_test(the_truth_table_of_indistinguishable_holds),
        cmocka_unit_test(groups_begin_with_the_best_that_is_left),
        cmocka_unit_test(draws_that_tie_are_shared),
        cmocka_unit_test(a_point_that_sometimes_does_not_fit_comes_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
