/// One-step forecasts of loads that stay, drift, jump and scatter.
#include "balance/control/forecast.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

enum { LAYERS = 4, ITERATIONS = 400 };

/// Loads of iteration t: constant; drifting; a jump at 200; independent noise of 30 %.
static void fill_times(bal_layer_times *times, int t, rng *random)
{
    const int64_t whole[LAYERS] = {3000000, 3000000 + 30000 * t, t < 200 ? 3000000 : 9000000,
                                   rng_between(random, 2100000, 3900000)};
    for (int layer = 0; layer < LAYERS; layer++) {
        times->forward_ns[layer] = whole[layer] / 3;
        times->backward_input_ns[layer] = whole[layer] / 3;
        times->backward_weight_ns[layer] = whole[layer] - 2 * (whole[layer] / 3);
    }
}

static double distance(int64_t left, int64_t right)
{
    return left > right ? (double)(left - right) : (double)(right - left);
}

static void each_layer_finds_the_method_that_suits_it(void **state)
{
    arena *memory = *state;
    rng random = rng_init(1, 1);
    bal_forecast forecast;
    bal_layer_times seen;
    bal_layer_times next;
    double error[LAYERS] = {0};         // of the forecasts
    double error_of_last[LAYERS] = {0}; // of taking the last value
    int64_t last[LAYERS] = {0};
    bal_forecast_init(&forecast, LAYERS, memory);
    bal_layer_times_init(&seen, LAYERS, memory);
    bal_layer_times_init(&next, LAYERS, memory);

    for (int t = 0; t < ITERATIONS; t++) {
        fill_times(&seen, t, &random);
        for (int layer = 0; layer < LAYERS && t >= 50; layer++) {
            const int64_t time = bal_layer_time_ns(&seen, layer);
            error[layer] += distance(time, bal_layer_time_ns(&next, layer));
            error_of_last[layer] += distance(time, last[layer]);
        }
        bal_forecast_observe(&forecast, &seen);
        bal_forecast_fill(&forecast, &seen, &next);
        for (int layer = 0; layer < LAYERS; layer++) {
            last[layer] = bal_layer_time_ns(&seen, layer);
        }
    }

    assert_int_equal(bal_forecast_method(&forecast, 0), 0);
    assert_int_equal(bal_forecast_method(&forecast, 1), 3);
    assert_int_equal(bal_forecast_method(&forecast, 2), 0);
    assert_int_equal(bal_forecast_method(&forecast, 3), 2);
    assert_true(error[0] == 0);
    assert_true(error[1] < 0.25 * error_of_last[1]);
    assert_true(error[2] < 1.1 * error_of_last[2]);
    // The mean of independent values errs by 1 / sqrt(2) of what the value before does.
    assert_true(error[3] < 0.8 * error_of_last[3]);
}

static void passes_keep_their_shares_and_their_sum(void **state)
{
    arena *memory = *state;
    bal_layer_times like;
    bal_layer_times out;
    bal_layer_times_init(&like, 4, memory);
    bal_layer_times_init(&out, 4, memory);
    const int64_t forward[] = {10, 10, 0, 10};
    const int64_t input[] = {20, 0, 0, 20};
    const int64_t weight[] = {30, 0, 0, 0};
    for (int layer = 0; layer < 4; layer++) {
        like.forward_ns[layer] = forward[layer];
        like.backward_input_ns[layer] = input[layer];
        like.backward_weight_ns[layer] = weight[layer];
    }
    const double whole[] = {601, 7.4, 5, 4};

    bal_layer_times_split(whole, &like, &out);

    const int64_t expected[4][3] = {{100, 200, 301}, {7, 0, 0}, {5, 0, 0}, {1, 3, 0}};
    for (int layer = 0; layer < 4; layer++) {
        assert_int_equal(out.forward_ns[layer], expected[layer][0]);
        assert_int_equal(out.backward_input_ns[layer], expected[layer][1]);
        assert_int_equal(out.backward_weight_ns[layer], expected[layer][2]);
    }
}

static void a_fall_to_nothing_is_never_forecast_below_it(void **state)
{
    arena *memory = *state;
    bal_forecast forecast;
    bal_layer_times times;
    bal_layer_times next;
    bal_forecast_init(&forecast, 1, memory);
    bal_layer_times_init(&times, 1, memory);
    bal_layer_times_init(&next, 1, memory);
    for (int t = 0; t < 30; t++) {
        times.forward_ns[0] = t < 20 ? 2000 - 100 * t : 0;
        bal_forecast_observe(&forecast, &times);
        bal_forecast_fill(&forecast, &times, &next);
        assert_true(next.forward_ns[0] >= 0);
        assert_true(next.forward_ns[0] <= 4000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layer_finds_the_method_that_suits_it),
        cmocka_unit_test(passes_keep_their_shares_and_their_sum),
        cmocka_unit_test(a_fall_to_nothing_is_never_forecast_below_it),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
