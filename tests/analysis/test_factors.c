/// The factors of a speed-up: what divides what, and that they multiply to the total as printed.
#include "analysis/compare/factors.h"
#include "base/rng.h"
#include "tests/assert_close.h"

#include <math.h>

static void each_factor_is_what_one_step_gains(void **state)
{
    (void)state;
    const ana_factor_times times = {
        .still_even_ns = 1200, .even_ns = 1000, .tuned_ns = 800, .unpacked_ns = 400, .row_ns = 500};

    const ana_factors factors = ana_factors_of(&times);

    assert_close(factors.factor[ANA_FACTOR_ALGORITHM], 1.2, 1e-12);
    assert_close(factors.factor[ANA_FACTOR_STATIC], 1.25, 1e-12);
    assert_close(factors.factor[ANA_FACTOR_DYNAMIC], 2, 1e-12);
    assert_close(factors.factor[ANA_FACTOR_REPACK], 0.8, 1e-12);
    assert_close(factors.total, 2.4, 1e-12);
}

static void what_was_not_played_is_no_factor(void **state)
{
    (void)state;
    const ana_factor_times recorded = {.even_ns = 1000, .tuned_ns = 900, .row_ns = 600};
    const ana_factor_times no_baseline = {.even_ns = 1000, .row_ns = 600};

    const ana_factors factors = ana_factors_of(&recorded);

    assert_true(factors.factor[ANA_FACTOR_ALGORITHM] == 0);
    assert_true(factors.factor[ANA_FACTOR_REPACK] == 0);
    assert_close(factors.total, 1000.0 / 600, 1e-12); // over even, as nothing is known without
    assert_close(factors.factor[ANA_FACTOR_DYNAMIC], 1.5, 1e-12);
    assert_true(ana_factors_of(&no_baseline).total == 0);
}

static void the_printed_factors_multiply_to_the_printed_total(void **state)
{
    (void)state;
    rng random = rng_init(7, 0);
    for (int round = 0; round < 20000; round++) {
        const int64_t still = 1000 + (int64_t)rng_below(&random, 1000000);
        const int64_t even = still / 2 + (int64_t)rng_below(&random, (uint64_t)still);
        const int64_t tuned = even / 2 + (int64_t)rng_below(&random, (uint64_t)even);
        const int64_t row = tuned / 2 + (int64_t)rng_below(&random, (uint64_t)tuned);
        const int64_t unpacked = row / 2 + (int64_t)rng_below(&random, (uint64_t)row);
        const ana_factor_times times = {still, even, tuned, unpacked, row};
        const ana_factors factors = ana_factors_of(&times);

        const ana_printed_factors printed = ana_factors_print(&factors);

        double product = 1;
        for (int factor = 0; factor < ANA_FACTOR_COUNT; factor++) {
            if (factors.factor[factor] == 0) continue;
            product *= (double)printed.factor_e4[factor] / 1e4;
            assert_true(fabs((double)printed.factor_e4[factor] - factors.factor[factor] * 1e4) <=
                        1);
        }
        assert_int_equal(llround(product * 1e3), printed.total_e3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_factor_is_what_one_step_gains),
        cmocka_unit_test(what_was_not_played_is_no_factor),
        cmocka_unit_test(the_printed_factors_multiply_to_the_printed_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
