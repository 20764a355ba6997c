/// Intervals without a distribution: against numbers from tables and worked out by hand, and how
/// often they miss, in seeded trials.
#include "analysis/check/check_parts.h"
#include "base/rng.h"
#include "tests/assert_close.h"

static arena *memory;

static int begin(void **state)
{
    (void)state;
    memory = arena_create(1 << 16);
    return memory == NULL;
}

static int end(void **state)
{
    (void)state;
    arena_destroy(memory);
    return 0;
}

static ana_shift pairs(const double *values, int count, double alpha)
{
    ana_shift shift;
    ana_shift_of_pairs(values, count, alpha, memory, &shift);
    return shift;
}

/// Of 12 values the sign test at 5 % takes the third smallest and the third largest:
/// P(at most 2 of 12) = 79 / 4096 = 0.0193, P(at most 3) = 0.073.
static void order_statistics_are_those_of_the_sign_test(void **state)
{
    (void)state;
    const double values[] = {5, 1, 9, 3, 12, 7, 2, 11, 4, 10, 6, 8};

    const ana_shift shift = pairs(values, 12, 0.05);

    assert_true(shift.is_bounded);
    assert_close(shift.estimate, 6.5, 1e-12);
    assert_close(shift.low, 3, 1e-12);
    assert_close(shift.high, 10, 1e-12);
}

/// 2 / 2^n <= 0.05 first at n = 6.
static void fewer_values_than_the_confidence_needs_have_no_interval(void **state)
{
    (void)state;
    const double values[] = {1, 1, 1, 1, 1, 1};
    assert_false(pairs(values, 5, 0.05).is_bounded);
    assert_int_equal(pairs(values, 5, 0.05).needed_count, 6);

    assert_true(pairs(values, 6, 0.05).is_bounded);
}

/// Two plateaus: neighbours tell the same, so the interval covers both.
static void values_that_resemble_their_neighbours_widen_the_interval(void **state)
{
    (void)state;
    double values[60];
    for (int index = 0; index < 60; index++) {
        values[index] = (index / 15) % 2 == 0 ? 1 + index * 1e-6 : 2 + index * 1e-6;
    }

    const ana_shift shift = pairs(values, 60, 0.05);

    assert_close(shift.low, 1, 1e-3);
    assert_close(shift.high, 2, 1e-3);
}

/// Skewed, of median 0: the exponential of rates 1 and 3 below and above, by inversion of a table.
static double skewed(rng *generator)
{
    const double unit = rng_unit(generator);
    if (unit < 0.5) return -unit * 0.02;
    const double above = 2 * (unit - 0.5);
    return above * above * above * 0.3;
}

enum { TRIALS = 4000 };

/// @return trials in which changes of this median are said to depart, of 30 iterations each
static int departing_of(double median, double alpha, uint64_t seed)
{
    const ana_check check = {.options = {.tolerance = 0.05}};
    rng generator = rng_init(seed, 1);
    int departing = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        double changes[30];
        int iteration[30];
        ana_check_quantity quantity = {.group = ANA_CHECK_ITERATION};
        for (int index = 0; index < 30; index++) {
            changes[index] = median + skewed(&generator);
            iteration[index] = index;
        }
        arena_reset(memory);
        ana_check_decide(&check, changes, iteration, 30, alpha / 2, memory, &quantity);
        departing += quantity.verdict == ANA_CHECK_DEPARTS;
    }
    return departing;
}

/// A change whose median is the tolerance itself is the hardest that must not depart. Both tests of
/// a quantity together, of the whole and of its end: 5 %, and three standard errors of grace,
/// 0.05 + 3 sqrt(0.05 x 0.95 / 4000) = 0.0603.
static void what_is_at_the_tolerance_departs_as_rarely_as_promised(void **state)
{
    (void)state;
    const int departing = departing_of(0.05, 0.05, 13);
    print_message("at the tolerance %d of %d depart\n", departing, TRIALS);
    assert_in_range(departing, 0, (int)(0.0603 * TRIALS));
}

static void warm_up_is_as_long_as_iterations_are_slower_than_the_rest(void **state)
{
    (void)state;
    double changes[40];
    for (int index = 0; index < 40; index++) {
        changes[index] = 0.001 * (index % 3) + (index < 8 ? 0.3 : 0);
    }
    assert_in_range(ana_check_warmup_of(changes, 40, memory), 4, 8);
    for (int index = 0; index < 40; index++) {
        changes[index] = index < 8 ? -0.3 : 0; // faster is no warm-up
    }
    assert_int_equal(ana_check_warmup_of(changes, 40, memory), 0);
    for (int index = 0; index < 40; index++) {
        changes[index] = index < 30 ? 0.3 : 0; // at most a third
    }
    assert_true(ana_check_warmup_of(changes, 40, memory) <= 13);
    assert_int_equal(ana_check_warmup_of(changes, 12, memory), 0);
}

static void a_departure_begins_where_more_depart_than_not(void **state)
{
    (void)state;
    const double changes[] = {0, 0, 0.2, 0, 0, 0.2, 0.2, 0, 0.2, 0.2};
    assert_int_equal(ana_check_since(changes, 10, 0.05), 5);
    assert_int_equal(ana_check_since(changes, 2, 0.05), -1);
    assert_int_equal(ana_check_since(changes + 8, 2, 0.05), 0);
}

int main(void)
{
#define SHIFT(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        SHIFT(order_statistics_are_those_of_the_sign_test),
        SHIFT(fewer_values_than_the_confidence_needs_have_no_interval),
        SHIFT(values_that_resemble_their_neighbours_widen_the_interval),
        SHIFT(what_is_at_the_tolerance_departs_as_rarely_as_promised),
        SHIFT(warm_up_is_as_long_as_iterations_are_slower_than_the_rest),
        SHIFT(a_departure_begins_where_more_depart_than_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
