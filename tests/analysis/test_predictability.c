/// How well an iteration tells the next: on series whose answer follows from how they were made.
#include "analysis/diagnosis/predictability.h"
#include "base/arena.h"
#include "tests/assert_close.h"
#include "tests/series_of_loads.h"

enum { LAYERS = 8, ITERATIONS = 400 };

static ana_forecastability forecast_of(const loads_series *given)
{
    ana_forecastability forecast;
    ana_forecastability_of(&given->series, given->memory, &forecast);
    return forecast;
}

static void noise_is_not_forecast(void **state)
{
    (void)state;
    static int64_t loads[ITERATIONS * LAYERS];
    rng generator = rng_init(3, 1);
    for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
        loads[entry] = rng_between(&generator, 900, 1100);
    }

    loads_series *given = loads_open(loads, LAYERS, ITERATIONS);
    const ana_forecastability forecast = forecast_of(given);

    assert_true(fabs(forecast.lags[0].correlation) < 0.1);
    assert_close(forecast.lags[0].persistence_r2, -1, 0.2);
    assert_true(forecast.overall.noise_ratio > 0.9);
    assert_int_equal(forecast.overall.half_life, 0);
    assert_int_equal(forecast.change_point_count, 0);
    loads_close(given);
}

static void a_slow_ramp_is_forecast_by_what_it_is_now(void **state)
{
    (void)state;
    static int64_t loads[ITERATIONS * LAYERS];
    for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
        loads[entry] = 100000 + (entry % LAYERS == 0 ? 1000 * (entry / LAYERS) : 0);
    }

    loads_series *given = loads_open(loads, LAYERS, ITERATIONS);
    const ana_forecastability forecast = forecast_of(given);

    assert_true(forecast.lags[0].persistence_r2 > 0.99);
    assert_true(forecast.lags[0].correlation > 0.98);
    assert_true(forecast.overall.noise_ratio < 0.01);
    assert_true(forecast.overall.half_life > 50);
    assert_true(forecast.layers[0].share_mean > forecast.layers[1].share_mean);
    loads_close(given);
}

/// x follows itself with factor 0.9: correlation 0.9^k at lag k, half of lag 1's after 6.6 more.
static void the_half_life_is_that_of_what_persists(void **state)
{
    (void)state;
    enum { LONG = 20000 };
    int64_t *loads = memory_array((size_t)LONG * LAYERS, sizeof *loads);
    double wander[LAYERS] = {0};
    rng generator = rng_init(11, 1);
    assert_non_null(loads);
    for (int entry = 0; entry < LONG * LAYERS; entry++) {
        const int layer = entry % LAYERS;
        wander[layer] = 0.9 * wander[layer] + (double)rng_between(&generator, -1000, 1000);
        loads[entry] = 1000000 + (int64_t)wander[layer];
    }

    loads_series *given =
        loads_open(loads, LAYERS, LONG); // thinned to every second sample: factor 0.81
    const ana_forecastability forecast = forecast_of(given);

    assert_int_equal(given->series.stride, 2);
    assert_close(forecast.lags[0].correlation, 0.81, 0.03);
    assert_close(forecast.lags[1].correlation, 0.81 * 0.81, 0.04);
    assert_int_equal(forecast.overall.half_life,
                     6); // 0.81^5 is below half, lag 5 not looked at
    loads_close(given);
    free(loads);
}

static void what_does_not_vary_has_no_ratios(void **state)
{
    (void)state;
    static int64_t loads[ITERATIONS * LAYERS];
    for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
        loads[entry] = 1024;
    }

    loads_series *given = loads_open(loads, LAYERS, ITERATIONS);
    const ana_forecastability forecast = forecast_of(given);

    assert_true(isnan(forecast.lags[0].correlation));
    assert_true(isnan(forecast.overall.noise_ratio));
    assert_int_equal(forecast.overall.half_life, -1);
    assert_true(forecast.overall.variation_ratio == 0);
    assert_int_equal(forecast.change_point_count, 0);
    loads_close(given);
}

static void jumps_are_found_where_they_are(void **state)
{
    (void)state;
    static double values[ITERATIONS * 3];
    int points[ANA_CHANGE_POINTS_MAX];
    int count = 0;
    bool is_capped = true;
    arena *memory = arena_create(1 << 12);
    rng generator = rng_init(17, 1);
    for (int row = 0; row < ITERATIONS; row++) {
        for (int column = 0; column < 3; column++) {
            const double level = column == 0 ? (row >= 130 ? 3 : 0) + (row >= 300 ? -5 : 0) : 0;
            values[row * 3 + column] = level + rng_unit(&generator);
        }
    }

    ana_change_points_find(values, ITERATIONS, 3, memory, points, &count, &is_capped);

    assert_int_equal(count, 2);
    assert_int_equal(points[0], 300); // the larger jump first
    assert_int_equal(points[1], 130);
    assert_false(is_capped);
    arena_destroy(memory);
}

static void a_false_jump_is_rare(void **state)
{
    (void)state;
    static double values[ITERATIONS * LAYERS];
    int points[ANA_CHANGE_POINTS_MAX];
    int found = 0;
    arena *memory = arena_create(1 << 12);
    for (uint64_t seed = 1; seed <= 300; seed++) {
        rng generator = rng_init(seed, 9);
        int count = 0;
        bool is_capped = false;
        for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
            values[entry] = rng_unit(&generator) + rng_unit(&generator) + rng_unit(&generator);
        }
        ana_change_points_find(values, ITERATIONS, LAYERS, memory, points, &count, &is_capped);
        found += count > 0;
    }

    assert_true(found <= 3); // one in 1,000 is promised
    arena_destroy(memory);
}

/// More columns than GSL's inverse of chi-square is asked about.
static void jumps_of_very_many_columns_are_found_and_noise_has_none(void **state)
{
    (void)state;
    enum { COLUMNS = 1200, ROWS = 60, JUMP = 25 };
    static double values[ROWS * COLUMNS];
    int points[ANA_CHANGE_POINTS_MAX];
    int count = 0;
    bool is_capped = true;
    arena *memory = arena_create(1 << 16);
    rng generator = rng_init(23, 1);
    for (int entry = 0; entry < ROWS * COLUMNS; entry++) {
        values[entry] = rng_unit(&generator) + rng_unit(&generator) + rng_unit(&generator);
    }

    ana_change_points_find(values, ROWS, COLUMNS, memory, points, &count, &is_capped);
    assert_int_equal(count, 0);

    for (int entry = JUMP * COLUMNS; entry < ROWS * COLUMNS; entry++) {
        values[entry] += 1;
    }
    ana_change_points_find(values, ROWS, COLUMNS, memory, points, &count, &is_capped);
    assert_int_equal(count, 1);
    assert_int_equal(points[0], JUMP);
    arena_destroy(memory);
}

static void a_few_samples_have_no_lags_to_speak_of(void **state)
{
    (void)state;
    const int64_t loads[LAYERS] = {1, 2, 3, 4, 5, 6, 7, 8};

    loads_series *given = loads_open(loads, LAYERS, 1);
    const ana_forecastability forecast = forecast_of(given);

    assert_int_equal(forecast.lag_count, 0);
    assert_int_equal(forecast.change_point_count, 0);
    loads_close(given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_not_forecast),
        cmocka_unit_test(a_slow_ramp_is_forecast_by_what_it_is_now),
        cmocka_unit_test(the_half_life_is_that_of_what_persists),
        cmocka_unit_test(what_does_not_vary_has_no_ratios),
        cmocka_unit_test(jumps_are_found_where_they_are),
        cmocka_unit_test(a_false_jump_is_rare),
        cmocka_unit_test(jumps_of_very_many_columns_are_found_and_noise_has_none),
        cmocka_unit_test(a_few_samples_have_no_lags_to_speak_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
