/// Training on GPUs that fail: the closed form against failures drawn one by one, and against
/// numbers by hand.
#include "analysis/whatif/goodput.h"
#include "base/arena.h"
#include "tests/assert_close.h"

#include "analysis/whatif/ranking.h"

#include <math.h>

static void failures_scale_with_the_gpus(void **state)
{
    (void)state;
    const ana_failures failures = {.mtbf_hours = 50000};

    assert_close(ana_failures_mtbf_s(&failures, 1000), 50 * 3600.0, 1e-12);
}

/// d = 8 s, M = 400 s: sqrt(6400) = 80, d / 2M = 0.01: 80 (1 + 0.1/3 + 0.01/9) - 8.
static void the_interval_is_that_of_daly(void **state)
{
    (void)state;
    const ana_failures failures = {.mtbf_hours = 400.0 / 3600, .checkpoint_s = 8};
    const ana_failures slow = {.mtbf_hours = 400.0 / 3600, .checkpoint_s = 800};
    const ana_failures given = {.mtbf_hours = 1, .checkpoint_s = 8, .interval_s = 7};

    assert_close(ana_checkpoint_interval_s(&failures, 1), 80 * (1 + 0.1 / 3 + 0.01 / 9) - 8, 1e-12);
    assert_close(ana_checkpoint_interval_s(&slow, 1), 400, 1e-12);
    assert_close(ana_checkpoint_interval_s(&given, 1), 7, 0);
}

static double mean_with_interval(double interval_s)
{
    const ana_failures failures = {1, 20, 60, interval_s};
    const ana_job job = {1e6, 1};
    ana_delivery delivery = {0};
    error_message err = {0};
    assert_ok(ana_delivery_expect(&failures, &job, &delivery, &err));
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
    const ana_job job = {100, 1};
    const ana_failures restarted = {100.0 / 3600, 10, 50, 90};
    const ana_job ten = {900, 1};
    ana_delivery delivery = {0};
    error_message err = {0};

    assert_ok(ana_delivery_expect(&failures, &job, &delivery, &err));
    assert_close(delivery.mean_s, 100 * (exp(1) - 1), 1e-12);

    // Daly 2006, equation 20: M e^(R/M) (e^((t + d)/M) - 1) for each of ten parts.
    assert_ok(ana_delivery_expect(&restarted, &ten, &delivery, &err));
    assert_close(delivery.mean_s, 10 * 100 * exp(0.5) * (exp(1) - 1), 1e-12);
}

static void without_failures_the_time_is_work_and_checkpoints(void **state)
{
    (void)state;
    const ana_failures failures = {1e15, 10, 100, 100};
    const ana_job job = {1050, 8}; // ten parts, and half of one
    ana_delivery delivery = {0};
    error_message err = {0};
    double time_s = 0;
    rng random = rng_init(1, 0);

    assert_ok(ana_delivery_expect(&failures, &job, &delivery, &err));
    assert_ok(ana_delivery_draw(&failures, &job, &random, &time_s, &err));

    assert_close(delivery.mean_s, 1160, 1e-9);
    assert_close(time_s, 1160, 1e-9);
}

/// Mean and deviation of drawn runs are those of the closed form.
static void drawn_failures_agree_with_the_closed_form(void **state)
{
    (void)state;
    enum { RUNS = 20000 };
    static const struct {
        ana_failures failures;
        ana_job job;
    } cases[] = {
        {{10, 5, 60, 0}, {86400, 10}},         // 24 failures
        {{10, 30, 600, 900}, {10000, 10}},     // a slow restart, a last part that is shorter
        {{1000, 5, 60, 0}, {3600, 10}},        // hardly any
        {{1.0 / 6, 120, 300, 500}, {5000, 1}}, // parts about as long as the time between failures
        {{0.01, 1, 2, 0}, {400000, 1}},        // too many to draw one by one
    };
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        ana_delivery delivery = {0};
        error_message err = {0};
        rng random = rng_init(5, row);
        double sum = 0;
        double squares = 0;
        assert_ok(ana_delivery_expect(&cases[row].failures, &cases[row].job, &delivery, &err));
        for (int run = 0; run < RUNS; run++) {
            double time_s = 0;
            assert_ok(
                ana_delivery_draw(&cases[row].failures, &cases[row].job, &random, &time_s, &err));
            const double off = time_s - delivery.mean_s;
            sum += off;
            squares += off * off;
        }
        const double error_s = delivery.deviation_s / sqrt(RUNS);
        assert_true(fabs(sum / RUNS) < 4 * error_s);
        assert_close(sqrt(squares / RUNS), delivery.deviation_s, 0.05);
    }
}

/// Of many failures the time is nearly normal: the drawn median and 95 % against its quantiles.
static void quantiles_of_many_failures_are_those_of_a_normal(void **state)
{
    (void)state;
    enum { RUNS = 5000 };
    static double times[RUNS];
    static double scratch[RUNS];
    const ana_failures failures = {100, 30, 300, 0};
    const ana_job job = {60 * 86400.0, 100}; // 1,440 failures of 1 hour between
    ana_delivery delivery = {0};
    error_message err = {0};
    rng random = rng_init(8, 0);
    assert_ok(ana_delivery_expect(&failures, &job, &delivery, &err));
    for (int run = 0; run < RUNS; run++) {
        assert_ok(ana_delivery_draw(&failures, &job, &random, &times[run], &err));
    }

    const ana_error_bar interval = ana_error_bar_of(times, RUNS, scratch);

    assert_close(interval.middle, delivery.mean_s, 0.001);
    assert_close(interval.high, delivery.mean_s + 1.6449 * delivery.deviation_s, 0.001);
}

static void what_never_ends_is_infeasible(void **state)
{
    (void)state;
    const ana_failures failures = {1, 600, 60, 3600};
    const ana_job job = {1e6, 100};
    ana_delivery delivery = {7, 7};
    double time_s = 7;
    rng random = rng_init(1, 0);
    error_message err = {0};
    const char *wanted = "100 GPUs fail every 36 s; work of 4.2e+03 s with its checkpoint, or a "
                         "restart of 60 s, is never finished";

    assert_int_equal(ana_delivery_expect(&failures, &job, &delivery, &err), STATUS_INFEASIBLE);
    assert_string_equal(err.message, wanted);
    assert_int_equal(ana_delivery_draw(&failures, &job, &random, &time_s, &err), STATUS_INFEASIBLE);
    assert_true(delivery.mean_s == 7 && time_s == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_scale_with_the_gpus),
        cmocka_unit_test(the_interval_is_that_of_daly),
        cmocka_unit_test(no_other_interval_is_much_better),
        cmocka_unit_test(the_mean_is_that_of_the_closed_form),
        cmocka_unit_test(without_failures_the_time_is_work_and_checkpoints),
        cmocka_unit_test(drawn_failures_agree_with_the_closed_form),
        cmocka_unit_test(quantiles_of_many_failures_are_those_of_a_normal),
        cmocka_unit_test(what_never_ends_is_infeasible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
