/// The variation of a recorded run, resampled in blocks.
#include "analysis/whatif/drawn_points.h"
#include "tests/assert_close.h"

#include <math.h>

enum { COUNT = 600, SEEDS = 20 };

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

static double factor_of(double *times, int block, rng *random)
{
    double residuals[COUNT];
    for (int iteration = 0; iteration < COUNT; iteration++)
        residuals[iteration] = times[iteration];
    const double mean = ana_resample_residuals(residuals, COUNT);
    return ana_resample_factor(residuals, COUNT, mean, block, random);
}

static int block_of(const double *times)
{
    double residuals[COUNT];
    for (int iteration = 0; iteration < COUNT; iteration++)
        residuals[iteration] = times[iteration];
    (void)ana_resample_residuals(residuals, COUNT);
    return ana_resample_block(residuals, COUNT);
}

static void a_steady_run_stays_as_it_is(void **state)
{
    (void)state;
    double times[COUNT];
    double one[1] = {7};
    rng random = rng_init(1, 0);
    for (int iteration = 0; iteration < COUNT; iteration++)
        times[iteration] = 7;

    assert_int_equal(block_of(times), 9); // 9^3 >= 600
    assert_close(factor_of(times, 6, &random), 1, 1e-12);
    assert_close(ana_resample_residuals(one, 1), 7, 0);
    assert_int_equal(ana_resample_block(one, 1), 1);
    assert_close(ana_resample_factor(one, 1, 7, 1, &random), 1, 1e-12);
}

static void a_trend_is_no_chance(void **state)
{
    (void)state;
    double times[COUNT];
    rng random = rng_init(1, 0);
    for (int iteration = 0; iteration < COUNT; iteration++)
        times[iteration] = 100 + iteration;

    assert_close(factor_of(times, 6, &random), 1, 1e-12);
    assert_close(ana_resample_residuals(times, COUNT), 399.5, 1e-12);
    assert_true(fabs(times[0]) < 1e-9 && fabs(times[COUNT - 1]) < 1e-9);
}

static void blocks_are_longer_where_iterations_hang_together(void **state)
{
    (void)state;
    int free_blocks = 0;
    int bound_blocks = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        double times[COUNT];
        fill(times, 0, seed);
        free_blocks += block_of(times);
        fill(times, 0.95, seed);
        bound_blocks += block_of(times);
    }

    assert_in_range(free_blocks, 9 * SEEDS, 11 * SEEDS);
    assert_in_range(bound_blocks, 20 * SEEDS, COUNT / 4 * SEEDS);
}

static double deviation_of_factors(double *times, int block)
{
    enum { ROUNDS = 1000 };
    rng random = rng_init(3, 0);
    double squares = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double off = factor_of(times, block, &random) - 1;
        squares += off * off;
    }
    return sqrt(squares / ROUNDS);
}

/// The deviation of the mean of 600 independent numbers, 1 / sqrt(12) / sqrt(200) of 100.
static void the_factor_varies_as_the_mean_of_a_run_does(void **state)
{
    (void)state;
    double sum = 0;
    double bound_single = 0;
    double bound_block = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        double times[COUNT];
        fill(times, 0, seed);
        sum += deviation_of_factors(times, block_of(times)) / SEEDS;
        fill(times, 0.8, seed);
        bound_single += deviation_of_factors(times, 1) / SEEDS;
        bound_block += deviation_of_factors(times, block_of(times)) / SEEDS;
    }

    assert_close(sum, 1 / sqrt(12.0) / sqrt(COUNT) / 100, 0.1);
    // The truth is 1 / (1 - 0.8) of that; single iterations would make it 1 / sqrt(1 - 0.8^2).
    const double truth = 1 / sqrt(12.0) / sqrt(COUNT) / 100 / 0.2;
    assert_close(bound_single, truth * 0.2 / 0.6, 0.15);
    assert_true(bound_block > 0.65 * truth && bound_block < 1.1 * truth);
}

/// Two points with the same blocks: what is longer by a factor is longer by it in every draw.
static void points_share_their_blocks(void **state)
{
    (void)state;
    double first[COUNT];
    double second[COUNT];
    fill(first, 0, 4);
    for (int iteration = 0; iteration < COUNT; iteration++) {
        second[iteration] = 2 * first[iteration];
    }

    for (uint64_t draw = 0; draw < 50; draw++) {
        rng one = rng_init(9, draw);
        rng two = rng_init(9, draw);
        assert_close(factor_of(first, 6, &one), factor_of(second, 6, &two), 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_run_stays_as_it_is),
        cmocka_unit_test(a_trend_is_no_chance),
        cmocka_unit_test(blocks_are_longer_where_iterations_hang_together),
        cmocka_unit_test(the_factor_varies_as_the_mean_of_a_run_does),
        cmocka_unit_test(points_share_their_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
