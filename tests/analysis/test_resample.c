/// The variation of a recorded run, resampled in blocks.
#include "analysis/whatif/resample.h"
#include "tests/assert_close.h"

#include <math.h>

enum { COUNT = 200 };

/// Noise around 100 that keeps a share of itself from one iteration to the next.
static void fill(double *times, double kept, uint64_t seed)
{
    rng random = rng_init(seed, 0);
    double off = 0;
    for (int iteration = 0; iteration < COUNT; iteration++) {
        off = kept * off + rng_unit(&random) - 0.5;
        times[iteration] = 100 + off;
    }
}

static void a_steady_run_stays_as_it_is(void **state)
{
    (void)state;
    double times[COUNT];
    rng random = rng_init(1, 0);
    for (int iteration = 0; iteration < COUNT; iteration++)
        times[iteration] = 7;

    assert_int_equal(ana_resample_block(times, COUNT), 6); // 6^3 >= 200
    assert_close(ana_resample_factor(times, COUNT, 6, &random), 1, 1e-12);
    assert_int_equal(ana_resample_block(times, 1), 1);
    assert_close(ana_resample_factor(times, 1, 1, &random), 1, 1e-12);
}

static void blocks_are_longer_where_iterations_hang_together(void **state)
{
    (void)state;
    double free_times[COUNT];
    double bound_times[COUNT];
    fill(free_times, 0, 1);
    fill(bound_times, 0.95, 1);

    const int free_block = ana_resample_block(free_times, COUNT);
    const int bound_block = ana_resample_block(bound_times, COUNT);

    assert_in_range(free_block, 6, 8);
    assert_in_range(bound_block, free_block + 4, COUNT / 4);
}

static double deviation_of_factors(const double *times, int block)
{
    enum { ROUNDS = 4000 };
    rng random = rng_init(3, 0);
    double squares = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double off = ana_resample_factor(times, COUNT, block, &random) - 1;
        squares += off * off;
    }
    return sqrt(squares / ROUNDS);
}

/// The deviation of the mean of 200 independent numbers, 1 / sqrt(12) / sqrt(200) of 100.
static void the_factor_varies_as_the_mean_of_a_run_does(void **state)
{
    (void)state;
    double sum = 0;
    double bound_single = 0;
    double bound_block = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        double times[COUNT];
        fill(times, 0, seed);
        sum += deviation_of_factors(times, ana_resample_block(times, COUNT)) / 20;
        fill(times, 0.8, seed);
        bound_single += deviation_of_factors(times, 1) / 20;
        bound_block += deviation_of_factors(times, ana_resample_block(times, COUNT)) / 20;
    }

    assert_close(sum, 1 / sqrt(12.0) / sqrt(COUNT) / 100, 0.1);
    // The truth is 1 / (1 - 0.8) of that; single iterations would make it 1 / sqrt(1 - 0.8^2).
    const double truth = 1 / sqrt(12.0) / sqrt(COUNT) / 100 / 0.2;
    assert_close(bound_single, truth * 0.2 / 0.6, 0.15);
    assert_true(bound_block > 0.65 * truth && bound_block < 1.1 * truth);
}

/// Two points with the same blocks: the difference of their means varies less than either.
static void points_share_their_blocks(void **state)
{
    (void)state;
    double first[COUNT];
    double second[COUNT];
    fill(first, 0, 4);
    for (int iteration = 0; iteration < COUNT; iteration++)
        second[iteration] = 2 * first[iteration];

    for (uint64_t draw = 0; draw < 50; draw++) {
        rng one = rng_init(9, draw);
        rng two = rng_init(9, draw);
        assert_close(ana_resample_factor(first, COUNT, 6, &one),
                     ana_resample_factor(second, COUNT, 6, &two), 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_run_stays_as_it_is),
        cmocka_unit_test(blocks_are_longer_where_iterations_hang_together),
        cmocka_unit_test(the_factor_varies_as_the_mean_of_a_run_does),
        cmocka_unit_test(points_share_their_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
