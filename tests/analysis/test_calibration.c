/// The fit, against runs whose making is known (synthetic_runs.h): coefficients come back,
/// intervals cover what they say.
#include "analysis/calibration/calibration.h"
#include "tests/analysis/synthetic_runs.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <math.h>

static synthetic_runs *make_runs(const synthetic_machine *machine, const int64_t *hidden_sizes,
                                 int hidden_count, bool pipelined, uint64_t seed)
{
    synthetic_runs *runs = arena_array(memory, 1, sizeof *runs);
    for (int index = 0; index < hidden_count; index++) {
        synthetic_fill(runs, machine, hidden_sizes[index], pipelined, seed);
    }
    return runs;
}

static ana_calibration fit(const synthetic_runs *runs)
{
    ana_calibration calibration;
    const ana_calibration_settings settings = {0};
    require(ana_calibration_fit(runs->shapes, runs->ms, runs->count, &settings, memory,
                                &calibration, &why));
    return calibration;
}

/// Largest and mean error, and the share of runs within the interval.
typedef struct outcome {
    double mean;
    double max;
    double coverage;
} outcome;

static outcome predict(const ana_calibration *calibration, const synthetic_runs *runs, double level)
{
    double *scratch =
        arena_array(memory, 2 * (size_t)calibration->coefficient_count, sizeof *scratch);
    const double quantile = ana_calibration_quantile(calibration, level);
    outcome sums = {0};
    for (int run = 0; run < runs->count; run++) {
        const ana_prediction found =
            ana_calibration_predict(calibration, &runs->shapes[run], scratch);
        const double error = fabs(found.middle_ms / runs->ms[run] - 1);
        sums.mean += error / runs->count;
        sums.max = fmax(sums.max, error);
        sums.coverage +=
            fabs(log(found.middle_ms / runs->ms[run])) <= quantile * found.deviation ? 1 : 0;
    }
    sums.coverage /= runs->count;
    return sums;
}

/// Times that are made of known coefficients give them back, and those of nothing measured are what
/// was known before.
TEST(coefficients_come_back_from_runs_without_noise)
{
    const synthetic_machine machine = synthetic_machine_default();
    const int64_t sizes[] = {1024, 2048, 4096};
    const double nothing[ANA_PART_COUNT] = {0};
    double logs[ANA_TERM_COUNT];
    double quantities[ANA_TERM_COUNT];
    double term_share[ANA_TERM_COUNT];
    double part_share[ANA_PART_COUNT];
    synthetic_runs *runs = make_runs(&machine, sizes, 3, false, 1);
    for (int term = 0; term < ANA_TERM_COUNT; term++) {
        logs[term] = ana_term_log_mean((ana_term)term) + (term % 2 == 0 ? 0.3 : -0.3);
    }
    for (int run = 0; run < runs->count; run++) {
        ana_term_quantities(&runs->shapes[run], 8, quantities);
        runs->ms[run] = exp(ana_log_time(logs, quantities, nothing, term_share, part_share));
    }

    const ana_calibration found = fit(runs);

    static const ana_term telling[] = {ANA_TERM_LAYER, ANA_TERM_PRODUCTS, ANA_TERM_MICROBATCH,
                                       ANA_TERM_UPDATE, ANA_TERM_REDUCTION_BYTES};
    for (size_t term = 0; term < sizeof telling / sizeof *telling; term++) {
        assert_close(exp(found.logs[telling[term]] - logs[telling[term]]), 1, 0.05);
    }
    assert_true(predict(&found, runs, 0.9).mean < 1e-3);
    assert_false(found.is_measured[ANA_TERM_REDUCTION_NODES]);
    assert_close(found.logs[ANA_TERM_REDUCTION_NODES], ana_term_log_mean(ANA_TERM_REDUCTION_NODES),
                 1e-3);
}

/// Half of the runs fitted, the others predicted, for twenty seeds: 4 of 5 seeds would be enough
/// for a true coverage of 0.9, and less than 0.75 on all of 20 would not be.
TEST(intervals_cover_what_they_say)
{
    double coverage = 0;
    enum { SEEDS = 20 };
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        arena_reset(memory);
        synthetic_machine machine = synthetic_machine_default();
        machine.shape_deviation = 0.08;
        machine.noise = 0.01;
        const int64_t size = 2048;
        synthetic_runs *all = make_runs(&machine, &size, 1, false, seed);
        synthetic_runs *odd = arena_array(memory, 1, sizeof *odd);
        synthetic_runs *even = arena_array(memory, 1, sizeof *even);
        for (int run = 0; run < all->count; run++) {
            synthetic_runs *half = (run / 2 + run) % 2 == 0 ? even : odd;
            half->shapes[half->count] = all->shapes[run];
            half->ms[half->count++] = all->ms[run];
        }

        const ana_calibration found = fit(even);
        coverage += predict(&found, odd, 0.9).coverage / SEEDS;
    }

    if (coverage < 0.88 || coverage > 0.97) fail_msg("coverage %g", coverage);
}

TEST(equal_runs_are_fitted_by_what_they_have)
{
    const ana_run_shape shape = {1, 4, 1, 64, 1, 2, 64, 1000, 1, 1, 1};
    const ana_run_shape shapes[] = {shape, shape, shape, shape, shape};
    const double ms[] = {10, 10.2, 9.8, 10.1, 9.9};
    const ana_calibration_settings settings = {0};
    ana_calibration found;
    double scratch[128];

    assert_ok(ana_calibration_fit(shapes, ms, 5, &settings, memory, &found, NULL));

    const ana_prediction same = ana_calibration_predict(&found, &shape, scratch);
    assert_close(same.middle_ms, 10, 0.01);
    ana_run_shape wider = shape;
    wider.hidden_size = 1024;
    const ana_prediction other = ana_calibration_predict(&found, &wider, scratch);
    assert_true(other.deviation > 5 * same.deviation);
    assert_int_equal(ana_calibration_beyond(&found, &wider), 1U << 3);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
