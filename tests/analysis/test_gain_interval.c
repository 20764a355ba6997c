/// Intervals of a gain, and the verdict that follows from them.
#include "analysis/diagnosis/verdict.h"
#include "base/rng.h"
#include "tests/assert_close.h"

enum { COUNT = 200 };

static ana_gain_interval interval_of(const int64_t *baseline, const int64_t *other, int count)
{
    ana_gain_interval interval;
    arena *memory = arena_create(1 << 12);
    ana_gain_interval_of(baseline, other, count, 0.025, 1, memory, &interval);
    arena_destroy(memory);
    return interval;
}

/// Runs whose true gain is 5 %, with independent noise: the interval holds it nearly as often as it
/// says.
static void the_interval_covers_the_truth(void **state)
{
    (void)state;
    enum { RUNS = 200 };
    int covered = 0;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        int64_t baseline[COUNT];
        int64_t other[COUNT];
        rng generator = rng_init(seed, 2);
        for (int index = 0; index < COUNT; index++) {
            baseline[index] = 105000 + rng_between(&generator, -20000, 20000);
            other[index] = 100000 + rng_between(&generator, -20000, 20000);
        }
        const ana_gain_interval interval = interval_of(baseline, other, COUNT);
        covered += interval.low <= 0.05 && 0.05 <= interval.high;
    }

    assert_true(covered >= 176); // 88 %, binomial lower bound of 92 %, what short blocks keep of 95
}

/// Slow waves make neighbours alike: drawing them one by one would make the interval too narrow.
static void blocks_are_as_long_as_what_persists(void **state)
{
    (void)state;
    int64_t baseline[COUNT];
    int64_t other[COUNT];
    for (int index = 0; index < COUNT; index++) {
        baseline[index] = 1000000 + (index / 20 % 2 == 0 ? 100000 : 0);
        other[index] = 1000000;
    }

    const ana_gain_interval waves = interval_of(baseline, other, COUNT);
    rng generator = rng_init(4, 4);
    for (int index = COUNT - 1; index > 0; index--) {
        const int with = (int)rng_below(&generator, (uint64_t)index + 1);
        const int64_t held = baseline[index];
        baseline[index] = baseline[with];
        baseline[with] = held;
    }
    const ana_gain_interval shuffled = interval_of(baseline, other, COUNT);

    assert_true(waves.block >= 8);
    assert_int_equal(shuffled.block, 6); // the cube root of 200, rounded up
    assert_true(waves.high - waves.low > 1.5 * (shuffled.high - shuffled.low));
}

static void few_iterations_have_no_interval(void **state)
{
    (void)state;
    const int64_t baseline[ANA_BOOTSTRAP_COUNT_MIN] = {3, 1, 1, 1};
    const int64_t other[ANA_BOOTSTRAP_COUNT_MIN] = {1, 1, 1, 1};

    const ana_gain_interval interval = interval_of(baseline, other, ANA_BOOTSTRAP_COUNT_MIN - 1);

    assert_true(interval.is_short);
    assert_close(interval.gain, 0.5, 1e-12);
    assert_close(interval.low, 0.5, 1e-12);
}

static ana_evidence evidence_of(double low, double high, double bound)
{
    return (ana_evidence){.threshold_ratio = 0.01,
                          .knows_state = true,
                          .best = {.gain = (low + high) / 2, .low = low, .high = high},
                          .best_over_kept = {.high = high},
                          .bound = {.high = bound}};
}

static void expect(ana_evidence evidence, ana_verdict verdict, ana_ground ground)
{
    const ana_judgement judgement = ana_judge(&evidence);
    assert_string_equal(ana_verdict_name(judgement.verdict), ana_verdict_name(verdict));
    assert_string_equal(ana_ground_name(judgement.ground), ana_ground_name(ground));
}

static void the_verdict_follows_the_rules_in_their_order(void **state)
{
    (void)state;
    ana_evidence good = evidence_of(0.02, 0.05, 0.2);
    expect(good, ANA_VERDICT_WORTHWHILE, ANA_GROUND_GAIN);
    good.best_over_kept.high = 0.009;
    expect(good, ANA_VERDICT_NOT_WORTHWHILE, ANA_GROUND_ONE_SPLIT);
    good.best_over_kept.high = 0.05;
    good.knows_state = false;
    expect(good, ANA_VERDICT_UNDECIDABLE, ANA_GROUND_STATE_UNKNOWN);
    good.is_of_stages = true;
    expect(good, ANA_VERDICT_UNDECIDABLE, ANA_GROUND_STAGES);
    good.best.is_short = true;
    expect(good, ANA_VERDICT_UNDECIDABLE, ANA_GROUND_SHORT);
    good.is_uniform = true;
    expect(good, ANA_VERDICT_UNDECIDABLE, ANA_GROUND_UNIFORM);

    expect(evidence_of(-0.01, 0.001, 0.009), ANA_VERDICT_NOT_WORTHWHILE, ANA_GROUND_PROVEN);
    expect(evidence_of(-0.01, 0.009, 0.2), ANA_VERDICT_NOT_WORTHWHILE, ANA_GROUND_NOISE);
    expect(evidence_of(-0.01, 0.02, 0.2), ANA_VERDICT_UNDECIDABLE, ANA_GROUND_INTERVAL);
}

/// Half the width is 1.5 %, the distance to the threshold 0.5 %: nine times the iterations.
static void the_iterations_that_would_decide_grow_with_the_square(void **state)
{
    (void)state;
    const ana_evidence near = evidence_of(0, 0.03, 0.2);
    ana_evidence on_it = evidence_of(0, 0.02, 0.2);

    assert_in_range(ana_iterations_to_decide(&near, 100), 899, 902);
    on_it.best.gain = on_it.threshold_ratio;
    assert_int_equal(ana_iterations_to_decide(&on_it, 100), INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_covers_the_truth),
        cmocka_unit_test(blocks_are_as_long_as_what_persists),
        cmocka_unit_test(few_iterations_have_no_interval),
        cmocka_unit_test(the_verdict_follows_the_rules_in_their_order),
        cmocka_unit_test(the_iterations_that_would_decide_grow_with_the_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
