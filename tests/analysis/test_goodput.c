/// Training on GPUs that fail: the closed form against numbers by hand, and against failures that
/// are drawn one by one here.
#include "analysis/whatif/goodput.h"
#include "base/rng.h"
#include "tests/assert_close.h"

#include <math.h>

/// d = 8 s, M = 400 s: sqrt(6400) = 80, d / 2M = 0.01: 80 (1 + 0.1/3 + 0.01/9) - 8.
static void the_interval_is_that_of_daly(void **state)
{
    (void)state;
    const ana_failures failures = {.mtbf_hours = 400.0 / 3600, .checkpoint_s = 8};
    const ana_failures slow = {.mtbf_hours = 400.0 / 3600, .checkpoint_s = 800};
    const ana_failures given = {.mtbf_hours = 1, .checkpoint_s = 8, .interval_s = 7};

    assert_close(ana_failures_mtbf_s(&given, 1000), 3.6, 1e-12);
    assert_close(ana_checkpoint_interval_s(&failures, 1), 80 * (1 + 0.1 / 3 + 0.01 / 9) - 8, 1e-12);
    assert_close(ana_checkpoint_interval_s(&slow, 1), 400, 1e-12);
    assert_close(ana_checkpoint_interval_s(&given, 1), 7, 0);
}

static void the_mean_is_that_of_the_closed_form(void **state)
{
    (void)state;
    const ana_failures failures = {.mtbf_hours = 100.0 / 3600, .interval_s = 100};
    const ana_failures restarted = {100.0 / 3600, 10, 50, 90};
    const ana_failures never = {1e15, 10, 100, 100};
    const ana_failures hopeless = {1, 600, 60, 3600};
    ana_failures tried = {1, 20, 60, 0};

    // One part of 100 s, M = 100 s, no restart: M (e - 1).
    assert_close(ana_delivery_s(&failures, 100, 1), 100 * (exp(1) - 1), 1e-12);
    // Daly 2006, equation 20: M e^(R/M) (e^((t + d)/M) - 1) for each of ten parts.
    assert_close(ana_delivery_s(&restarted, 900, 1), 10 * 100 * exp(0.5) * (exp(1) - 1), 1e-12);
    assert_close(ana_delivery_s(&never, 1050, 8), 1160, 1e-9); // ten parts, and half of one
    assert_true(isinf(ana_delivery_s(&hopeless, 1e6, 100)));
    const double chosen = ana_delivery_s(&tried, 1e6, 1);
    for (tried.interval_s = 50; tried.interval_s < 3000; tried.interval_s *= 1.1) {
        assert_true(ana_delivery_s(&tried, 1e6, 1) > chosen * 0.9995);
    }
}

/// Work of parts with checkpoints, failures coming one by one.
static double play(const ana_failures *failures, double work_s, double gpu_count, rng *random)
{
    const double mtbf_s = ana_failures_mtbf_s(failures, gpu_count);
    const double interval_s = ana_checkpoint_interval_s(failures, gpu_count);
    double left_s = work_s;
    double spent_s = 0;
    double failure_s = -mtbf_s * log(1 - rng_unit(random)); // when the next one comes
    while (left_s > 0) {
        const double done_s = fmin(interval_s, left_s);
        const double part_s = done_s + failures->checkpoint_s;
        if (failure_s >= spent_s + part_s) {
            spent_s += part_s;
            left_s -= done_s;
            continue;
        }
        do { // a restart begins anew if another failure comes meanwhile
            spent_s = failure_s;
            failure_s = spent_s - mtbf_s * log(1 - rng_unit(random));
        } while (failure_s < spent_s + failures->restart_s);
        spent_s += failures->restart_s;
    }
    return spent_s;
}

static void drawn_failures_agree_with_the_closed_form(void **state)
{
    (void)state;
    enum { RUNS = 10000 };
    static const struct {
        ana_failures failures;
        double work_s;
        double gpu_count;
    } cases[] = {
        {{10, 5, 60, 0}, 86400, 10},         // 24 failures
        {{10, 30, 600, 900}, 10000, 10},     // a slow restart, a last part that is shorter
        {{300, 5, 60, 0}, 3600, 10},         // hardly any
        {{1.0 / 6, 120, 300, 500}, 5000, 1}, // parts as long as the time between failures
    };
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        rng random = rng_init(5, row);
        double sum = 0;
        double squares = 0;
        for (int run = 0; run < RUNS; run++) {
            const double time_s =
                play(&cases[row].failures, cases[row].work_s, cases[row].gpu_count, &random);
            sum += time_s;
            squares += time_s * time_s;
        }
        const double mean = sum / RUNS;
        const double error = sqrt((squares / RUNS - mean * mean) / RUNS);
        const double expected =
            ana_delivery_s(&cases[row].failures, cases[row].work_s, cases[row].gpu_count);
        assert_true(fabs(mean - expected) < 4 * error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_is_that_of_daly),
        cmocka_unit_test(the_mean_is_that_of_the_closed_form),
        cmocka_unit_test(drawn_failures_agree_with_the_closed_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
