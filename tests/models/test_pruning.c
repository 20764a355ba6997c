/// pruning: the published levels of both schedules, densities against the definition and by
/// properties, the kernels' curve against its table, and what is refused.
#include "base/rng.h"
#include "models/dynamism/pruning.h"
#include "tests/test.h"

static const model_pruning_schedule published = {3000, 7000, 1000, 0, 0.9, false};
static const model_pruning_schedule released = {2999, 7000, 1000, 0, 0.9, true};

TEST(the_published_schedule_reaches_its_levels)
{
    // 0.9 (1 - (3/4)^3), 0.9 (1 - (2/4)^3), 0.9 (1 - (1/4)^3), 0.9
    assert_true(model_pruning_sparsity(&published, 0) == 0);
    assert_true(model_pruning_sparsity(&published, 3000) == 0);
    assert_close(model_pruning_sparsity(&published, 4000), 0.5203125, 1e-12);
    assert_close(model_pruning_sparsity(&published, 4999), 0.5203125, 1e-12);
    assert_close(model_pruning_sparsity(&published, 5000), 0.7875, 1e-12);
    assert_close(model_pruning_sparsity(&published, 6000), 0.8859375, 1e-12);
    assert_close(model_pruning_sparsity(&published, 7000), 0.9, 1e-12);
    assert_close(model_pruning_sparsity(&published, 2000000000), 0.9, 1e-12);
    assert_int_equal(model_pruning_last_step(&published, 2999), -1);
    assert_int_equal(model_pruning_last_step(&published, 6999), 6000);
    assert_int_equal(model_pruning_last_step(&published, 9999), 7000);
}

TEST(the_released_code_prunes_three_times)
{
    // t0 = 2999, n = 4001 / 1000 = 4: at 3000 0.07 %, passed over; 7000 is not before the end.
    assert_close(model_pruning_target(&released, 3000), 0.9 * (1 - pow(3999.0 / 4000, 3)), 1e-9);
    assert_true(model_pruning_sparsity(&released, 3999) == 0);
    assert_close(model_pruning_sparsity(&released, 4000), 0.521, 1e-3);
    assert_close(model_pruning_sparsity(&released, 5000), 0.788, 1e-3);
    assert_close(model_pruning_sparsity(&released, 6000), 0.886, 1e-3);
    assert_close(model_pruning_sparsity(&released, 9999), 0.886, 1e-3);
    assert_int_equal(model_pruning_last_step(&released, 3999), -1);
    assert_int_equal(model_pruning_last_step(&released, 4999), 4000);
    assert_int_equal(model_pruning_last_step(&released, 7000), 6000);
}

TEST(sparsity_never_falls)
{
    rng random = rng_init(3, 0);
    for (int round = 0; round < 200; round++) {
        model_pruning_schedule schedule = {.start_iteration = (int)rng_between(&random, 0, 50),
                                           .interval = (int)rng_between(&random, 1, 9),
                                           .initial_sparsity = rng_unit(&random) / 2,
                                           .final_sparsity = 0.5 + rng_unit(&random) / 2,
                                           .as_released = round % 2 == 1};
        schedule.end_iteration =
            schedule.start_iteration + schedule.interval * (int)rng_between(&random, 1, 20);
        assert_ok(model_pruning_schedule_check(&schedule, NULL));
        double before = 0;
        for (int iteration = 0; iteration < 300; iteration++) {
            const double sparsity = model_pruning_sparsity(&schedule, iteration);
            const int step = model_pruning_last_step(&schedule, iteration);
            assert_true(sparsity >= before && sparsity <= schedule.final_sparsity);
            assert_true(step <= iteration);
            if (iteration > 0 && step != iteration) assert_true(sparsity == before);
            before = sparsity;
        }
    }
}

static void check_refused(model_pruning_schedule schedule, const char *message)
{
    assert_fails(model_pruning_schedule_check(&schedule, &why), STATUS_INVALID, message);
}

TEST(schedules_that_make_no_sense_are_refused)
{
    check_refused((model_pruning_schedule){10, 10, 1, 0, 0.9, false},
                  "the schedule ends before it starts: end_iteration 10 is not after "
                  "start_iteration 10");
    check_refused((model_pruning_schedule){10, 14, 5, 0, 0.9, true},
                  "interval 5 is longer than the schedule, which lasts 4 iterations");
    check_refused((model_pruning_schedule){2999, 7000, 1000, 0, 0.9, false},
                  "the schedule lasts 4001 iterations, which is no multiple of interval 1000");
    check_refused((model_pruning_schedule){0, 10, 1, 0.5, 0.25, false},
                  "initial_sparsity 0.5 is outside [0, final_sparsity 0.25]");
}

TEST(densities_keep_the_total_and_follow_sigma)
{
    const uint64_t seed = 29;
    rng random = rng_init(seed, 0);
    for (int round = 0; round < 100; round++) {
        enum { LAYERS = 12 };
        double sigma[LAYERS];
        double scaled[LAYERS];
        int64_t weights[LAYERS];
        double density[LAYERS];
        double again[LAYERS];
        double all = 0;
        for (int layer = 0; layer < LAYERS; layer++) {
            sigma[layer] = 0.01 + rng_unit(&random);
            scaled[layer] = sigma[layer] * 1024;
            weights[layer] = rng_between(&random, 1, 1 << 30);
            all += (double)weights[layer];
        }
        const double sparsity = rng_unit(&random) * 0.99;
        model_pruning_densities(sigma, weights, LAYERS, sparsity, density);
        model_pruning_densities(scaled, weights, LAYERS, sparsity, again);
        double kept = 0;
        for (int layer = 0; layer < LAYERS; layer++) {
            kept += density[layer] * (double)weights[layer];
            assert_true(density[layer] == again[layer]);
            for (int other = 0; other < LAYERS; other++) {
                if (sigma[other] > sigma[layer]) assert_true(density[other] >= density[layer]);
            }
        }
        assert_close(kept, all * (1 - sparsity), 1e-9);
    }
}

TEST(the_published_curve_is_its_table)
{
    const model_kernel_speed *speed = &model_kernel_speed_sputnik_a100;
    const double density[] = {0.5, 0.25, 0.2, 0.15, 0.1, 0.05};
    const double ratio[] = {1.79, 1.08, 0.83, 0.70, 0.55, 0.35};
    assert_ok(model_kernel_speed_check(speed, NULL));
    for (int point = 0; point < 6; point++) {
        assert_close(model_kernel_speed_at(speed, density[point]), ratio[point], 0.012);
    }
    assert_close(model_kernel_speed_at(speed, 0.375), (1.79100 + 1.08037) / 2, 1e-4);
    assert_true(model_kernel_speed_at(speed, 0) == model_kernel_speed_at(speed, 0.05));
    // The slope of the last two points goes on: 1.791 + 0.5 x 2.8425.
    assert_close(model_kernel_speed_at(speed, 1), 3.2123, 1e-4);
    // Sparse products pay below a density of about 0.234: 76.6 % sparsity.
    assert_true(model_kernel_speed_at(speed, 0.233) < 1);
    assert_true(model_kernel_speed_at(speed, 0.235) > 1);
}

static void check_curve_refused(const double *density, const double *ratio, int count,
                                const char *message)
{
    const model_kernel_speed speed = {density, ratio, count};
    assert_fails(model_kernel_speed_check(&speed, &why), STATUS_INVALID, message);
}

TEST(curves_that_make_no_sense_are_refused)
{
    const double rising[] = {0.25, 0.5};
    check_curve_refused((const double[]){0, 0.5}, rising, 2,
                        "point 0 of the curve: density 0 is outside (0, 1]");
    check_curve_refused((const double[]){0.5, 1.5}, rising, 2,
                        "point 1 of the curve: density 1.5 is outside (0, 1]");
    check_curve_refused((const double[]){0.5, 0.5}, rising, 2,
                        "point 1 of the curve: density 0.5 is not above 0.5, the one before");
    check_curve_refused(rising, (const double[]){0.5, 0}, 2,
                        "point 1 of the curve: ratio 0 is not positive");
    check_curve_refused(rising, (const double[]){0.5, 0.25}, 2,
                        "point 1 of the curve: ratio 0.25 is below 0.5, the one before: a denser "
                        "matrix cannot be faster");
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
