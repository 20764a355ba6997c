/// Training on GPUs that fail: the closed form against numbers by hand, and against failures that
/// are drawn one by one here.
#include "analysis/whatif/goodput.h"
#include "analysis/whatif/ranking.h"
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

static double mean_with_interval(double interval_s)
{
    const ana_failures failures = {1, 20, 60, interval_s};
    const ana_job job = {1e6, 1};
    ana_delivery delivery = {0};
    assert_true(ana_delivery_expect(&failures, &job, &delivery));
    return delivery.mean_s;
}

static void no_other_interval_is_much_better(void **state)
{
    (void)state;
    const double chosen = mean_with_interval(0);

    for (double interval_s = 50; interval_s < 3000; interval_s *= 1.1) {
        assert_true(mean_with_interval(interval_s) > chosen * 0.9995);
    }
}

/// One part of 100 s, M = 100 s, no restart: M (e - 1).
static void the_mean_is_that_of_the_closed_form(void **state)
{
    (void)state;
    const ana_failures failures = {.mtbf_hours = 100.0 / 3600, .interval_s = 100};
    const ana_failures restarted = {100.0 / 3600, 10, 50, 90};
    const ana_failures never = {1e15, 10, 100, 100};
    const ana_failures hopeless = {1, 600, 60, 3600};
    ana_delivery delivery = {0};

    assert_true(ana_delivery_expect(&failures, &(ana_job){100, 1}, &delivery));
    assert_close(delivery.mean_s, 100 * (exp(1) - 1), 1e-12);
    // Daly 2006, equation 20: M e^(R/M) (e^((t + d)/M) - 1) for each of ten parts.
    assert_true(ana_delivery_expect(&restarted, &(ana_job){900, 1}, &delivery));
    assert_close(delivery.mean_s, 10 * 100 * exp(0.5) * (exp(1) - 1), 1e-12);
    // Ten parts, and half of one.
    assert_true(ana_delivery_expect(&never, &(ana_job){1050, 8}, &delivery));
    assert_close(ana_delivery_quantile(&delivery, 0.95), 1160, 1e-9);
    assert_false(ana_delivery_expect(&hopeless, &(ana_job){1e6, 100}, &delivery));
}

/// Work of parts with checkpoints, failures coming one by one.
static double play(const ana_failures *failures, const ana_job *job, rng *random)
{
    const double mtbf_s = ana_failures_mtbf_s(failures, job->gpu_count);
    const double interval_s = ana_checkpoint_interval_s(failures, job->gpu_count);
    double left_s = job->work_s;
    double spent_s = 0;
    double failure_s = -mtbf_s * log(1 - rng_unit(random)); // when the next one comes
    while (left_s > 0) {
        const double work_s = fmin(interval_s, left_s);
        const double part_s = work_s + failures->checkpoint_s;
        if (failure_s >= spent_s + part_s) {
            spent_s += part_s;
            left_s -= work_s;
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
    enum { RUNS = 20000 };
    static double times[RUNS];
    static double scratch[RUNS];
    static const struct {
        ana_failures failures;
        ana_job job;
        double tolerance; // of the quantiles
    } cases[] = {
        {{10, 5, 60, 0}, {86400, 10}, 0.002},        // 24 failures
        {{10, 30, 600, 900}, {10000, 10}, 0.03},     // a slow restart, a last part that is shorter
        {{300, 5, 60, 0}, {3600, 10}, 0.01},         // hardly any
        {{1.0 / 6, 120, 300, 500}, {5000, 1}, 0.05}, // parts as long as the time between failures
        {{1, 5, 20, 0}, {200000, 10}, 0.002},        // hundreds
    };
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        ana_delivery delivery = {0};
        rng random = rng_init(5, row);
        double sum = 0;
        double squares = 0;
        assert_true(ana_delivery_expect(&cases[row].failures, &cases[row].job, &delivery));
        for (int run = 0; run < RUNS; run++) {
            times[run] = play(&cases[row].failures, &cases[row].job, &random);
            const double off = times[run] - delivery.mean_s;
            sum += off;
            squares += off * off;
        }
        assert_true(fabs(sum / RUNS) < 4 * delivery.deviation_s / sqrt(RUNS));
        assert_close(sqrt(squares / RUNS), delivery.deviation_s, 0.06);
        const ana_error_bar bar = ana_error_bar_of(times, RUNS, scratch);
        const double tolerance = cases[row].tolerance;
        assert_close(ana_delivery_quantile(&delivery, 0.5), bar.middle, tolerance);
        assert_close(ana_delivery_quantile(&delivery, 0.95), bar.high, tolerance);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_is_that_of_daly),
        cmocka_unit_test(no_other_interval_is_much_better),
        cmocka_unit_test(the_mean_is_that_of_the_closed_form),
        cmocka_unit_test(drawn_failures_agree_with_the_closed_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
