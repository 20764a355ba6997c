/// The diagnosis as a whole: what must hold between its figures on any run, and what becomes of a
/// run that was sampled; its series, intervals and verdicts.
#include "analysis/diagnosis/diagnosis.h"
#include "base/rng.h"
#include "tests/series_of_loads.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 14, ITERATIONS = 60, MICROBATCHES = 6 };

static ana_study study;
static ana_setup setup;
static ana_diagnosis diagnosis;
static int64_t rank_memory_bytes; // 0: the hardware's

/// Diagnoses a run of layer times in place of those of the model that the study names.
///
/// @param sampling costs change in every sampling-th iteration only
static void diagnose(const int64_t *loads, int sampling, int64_t state_bytes, int stages,
                     const char *schedule)
{
    static loads_source source;
    static int64_t state_bytes_of[LAYERS];
    char text[2048];
    const ana_diagnosis_options options = ana_diagnosis_options_default();
    snprintf(text, sizeof text,
             "{\"schema\":\"dynmo-study/1\",\"name\":\"n\",\"model\":\"gpt2\",\"hardware\":"
             "\"h100-sxm\",\"training\":{\"iterations\":%d,\"microbatches\":%d},"
             "\"pipeline\":{\"stages\":%d,\"schedule\":\"%s\"},"
             "\"balancing\":%s}",
             ITERATIONS, MICROBATCHES, stages, schedule, ana_diagnosis_rows);
    assert_ok(ana_study_open_text("n", text, "{}", memory, &study, &why));
    assert_ok(ana_setup_open(&study, NULL, memory, &setup, &why));
    for (int layer = 0; layer < LAYERS; layer++) {
        state_bytes_of[layer] = state_bytes;
    }
    source = (loads_source){.layer_count = LAYERS,
                            .iteration_count = ITERATIONS,
                            .sampling = sampling,
                            .load_ns = loads,
                            .state_bytes = state_bytes_of};
    setup.source = loads_port(&source);
    if (rank_memory_bytes > 0) setup.machine.rank_memory_bytes = rank_memory_bytes;
    require(ana_diagnose(&setup, &options, NULL, NULL, memory, &diagnosis, &why));
}

static void draw(uint64_t seed, int64_t *loads)
{
    rng generator = rng_init(seed, 1);
    for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
        const bool is_heavy = entry % LAYERS < entry / LAYERS * LAYERS / ITERATIONS;
        loads[entry] = rng_between(&generator, 800000, 1200000) + (is_heavy ? 1500000 : 0);
    }
}

TEST(gains_are_ordered)
{
    static const char *const schedules[] = {"1f1b", "gpipe"};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        static int64_t loads[ITERATIONS * LAYERS];
        draw(seed, loads);

        diagnose(loads, 1, 1000000, 2 + (int)seed, schedules[seed % 2]);
        assert_true(diagnosis.evidence.bound.gain >= diagnosis.kept.gain);
        for (int row = 0; row < study.balancing_count; row++) {
            const ana_gain_interval *gain = &diagnosis.rows[row].interval;
            assert_true(diagnosis.evidence.bound.gain >= gain->gain);
            assert_true(gain->low <= gain->gain && gain->gain <= gain->high);
            assert_true(diagnosis.rows[diagnosis.baseline].total_ns <=
                            diagnosis.rows[row].total_ns ||
                        ana_balancing_is_dynamic(diagnosis.rows[row].row->balancing));
        }
        assert_true(diagnosis.rows[diagnosis.best].interval.gain > 0.02); // the load does move
    }
}

/// Playing a row's own plan iteration by iteration gives the length that the replay gave the row.
TEST(plans_take_what_rows_take)
{
    static int64_t loads[ITERATIONS * LAYERS];
    int64_t taken[ITERATIONS];
    int64_t sum = 0;
    draw(9, loads);
    diagnose(loads, 1, 1000000, 4, "1f1b");

    assert_ok(ana_plan_takes(diagnosis.setup, diagnosis.series,
                             diagnosis.rows[1].row->result.start_first_layer, memory, taken, NULL));

    for (int index = 0; index < ITERATIONS; index++) {
        sum += taken[index];
    }
    assert_int_equal(sum, diagnosis.rows[1].total_ns); // `tuned`
    assert_int_equal(sum, diagnosis.rows[1].row->result.total_ns);
}

/// A sample stands for two iterations, of which one pays for the moves.
TEST(a_sampled_run_pays_for_moves_once_per_sample)
{
    static int64_t loads[ITERATIONS * LAYERS];
    draw(3, loads);

    diagnose(loads, 2, 500000000, 4, "1f1b");
    assert_int_equal(diagnosis.series->count, ITERATIONS / 2);
    assert_close(diagnosis.spacing, 2, 1e-12);
    for (int row = 0; row < study.balancing_count; row++) {
        const ana_row_gain *gain = &diagnosis.rows[row];
        const int64_t moving = gain->row->result.migration_ns;
        const int64_t rounding = gain->row->result.rebalance_count;
        assert_true(llabs(gain->overhead_ns - moving / 2) <= rounding + 1);
        assert_int_equal(gain->total_ns, gain->row->result.total_ns - moving + gain->overhead_ns);
    }
    assert_true(diagnosis.rows[3].row->result.migration_ns > 0); // partition every:1
}

/// No split in three stages that is kept has a slowest stage that is faster, by trying them all.
TEST(the_split_that_is_found_is_the_best_of_all)
{
    static int64_t loads[ITERATIONS * LAYERS];
    int found[4];
    draw(7, loads);
    diagnose(loads, 1, 1000000, 3, "1f1b");
    assert_ok(ana_kept_split_of(diagnosis.series, 3, memory, found, NULL));
    int64_t best_ns = INT64_MAX;
    int64_t found_ns = 0;

    for (int one = 1; one < LAYERS - 1; one++) {
        for (int two = one + 1; two < LAYERS; two++) {
            int64_t sum_ns = 0;
            for (int index = 0; index < ITERATIONS; index++) {
                int64_t stage_ns[3] = {0};
                for (int layer = 0; layer < LAYERS; layer++) {
                    stage_ns[(layer >= one) + (layer >= two)] += loads[index * LAYERS + layer];
                }
                const int64_t most_ns = stage_ns[0] > stage_ns[1] ? stage_ns[0] : stage_ns[1];
                sum_ns += most_ns > stage_ns[2] ? most_ns : stage_ns[2];
            }
            if (sum_ns < best_ns) best_ns = sum_ns;
            if (one == found[1] && two == found[2]) found_ns = sum_ns;
        }
    }

    assert_int_equal(found_ns, best_ns);
}

/// `even` and `tuned` are splits that are kept, too.
TEST(the_kept_split_is_no_slower_than_even_and_tuned)
{
    int slower_count = 0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        static int64_t loads[ITERATIONS * LAYERS];
        int found[8];
        int64_t taken[ITERATIONS];
        int64_t sum_ns = 0;
        draw(seed, loads);
        diagnose(loads, 1, 1000000, 7, "1f1b");
        assert_true(diagnosis.kept.gain >= 0);

        assert_ok(ana_kept_split_of(diagnosis.series, 7, memory, found, NULL));
        assert_ok(ana_plan_takes(diagnosis.setup, diagnosis.series, found, memory, taken, NULL));
        for (int index = 0; index < ITERATIONS; index++) {
            sum_ns += taken[index];
        }
        slower_count += sum_ns > diagnosis.rows[diagnosis.baseline].total_ns;
    }
    assert_true(slower_count > 0); // else this tells nothing
}

/// The last layers take longest, so that the fastest split has ten on the first rank, which holds
/// eight.
TEST(the_kept_split_fits_in_memory)
{
    static int64_t loads[ITERATIONS * LAYERS];
    for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
        loads[entry] = (entry % LAYERS < 10 ? 1000000 : 2500000) + entry % 7;
    }
    diagnose(loads, 1, 1000000000, 2, "1f1b");
    assert_int_equal(diagnosis.kept_first_layer[1], 10);

    rank_memory_bytes = INT64_C(8500000000);
    diagnose(loads, 1, 1000000000, 2, "1f1b");
    rank_memory_bytes = 0;

    assert_in_range(diagnosis.kept_first_layer[1], 6, 8);
}

// Series: samples are kept, thinned out and summed as the header says.

enum { SAMPLED_LAYERS = 3, SAMPLED = 100 };

static void fill(int64_t *loads)
{
    for (int entry = 0; entry < SAMPLED * SAMPLED_LAYERS; entry++) {
        loads[entry] = 10 * (entry / SAMPLED_LAYERS) + entry % SAMPLED_LAYERS;
    }
}

TEST(every_sample_is_an_iteration)
{
    int64_t loads[SAMPLED * SAMPLED_LAYERS];
    loads_source source = {.layer_count = SAMPLED_LAYERS,
                           .iteration_count = SAMPLED,
                           .load_ns = loads,
                           .sampling = 10};
    const bal_cost_source port = loads_port(&source);
    ana_series series;
    bal_layer_costs costs;
    bool changed = false;
    fill(loads);

    assert_ok(ana_series_read(&port, SAMPLED, ANA_SERIES_COUNT_MAX, memory, &series, NULL));

    assert_int_equal(series.count, 10);
    assert_int_equal(series.sample_count, 10);
    assert_int_equal(series.last, 90);
    assert_close(ana_series_spacing(&series), 10, 1e-12);
    assert_int_equal(ana_series_load_ns(&series, 3, 2), 302);
    assert_int_equal(ana_series_before(&series, 3)[SAMPLED_LAYERS], 300 + 301 + 302);
    const bal_cost_source again = ana_series_source(&series);
    assert_ok(again.costs_at(again.context, 3, &costs, &changed, NULL));
    assert_true(changed);
    assert_int_equal(costs.forward_ns[1] + costs.backward_input_ns[1], 301);
}

TEST(samples_beyond_the_limit_are_thinned_out_evenly)
{
    int64_t loads[SAMPLED * SAMPLED_LAYERS];
    loads_source source = {
        .layer_count = SAMPLED_LAYERS, .iteration_count = SAMPLED, .load_ns = loads};
    const bal_cost_source port = loads_port(&source);
    fill(loads);
    for (int limit = 2; limit < SAMPLED + 10; limit++) {
        arena_reset(memory);
        ana_series series;

        assert_ok(ana_series_read(&port, SAMPLED, limit, memory, &series, NULL));

        assert_true(series.count <= limit);
        assert_true(series.stride == 1 || 2 * series.count > limit);
        assert_int_equal(series.sample_count, SAMPLED);
        for (int index = 0; index < series.count; index++) {
            assert_int_equal(series.iteration[index], index * series.stride);
            assert_int_equal(ana_series_load_ns(&series, index, 1), 10 * index * series.stride + 1);
            assert_int_equal(series.costs[index].forward_ns[1] +
                                 series.costs[index].backward_input_ns[1],
                             10 * index * series.stride + 1);
        }
    }
}

static status two_columns(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                          error_message *err)
{
    static const int64_t forward[] = {10, 20, 30, 50};
    static const int64_t none[4] = {0};
    *changed = true;
    *costs = (bal_layer_costs){.layer_count = iteration == 7 ? 1 : 2,
                               .microbatch_count = 2,
                               .forward_ns = forward,
                               .backward_input_ns = none,
                               .backward_weight_ns = none};
    return STATUS_OK;
}

TEST(iterations_of_other_layers_are_invalid)
{
    const bal_cost_source port = {.layer_count = 2, .costs_at = two_columns};
    ana_series series = {.count = -7};

    assert_fails_naming(ana_series_read(&port, 9, ANA_SERIES_COUNT_MAX, memory, &series, &why),
                        STATUS_INVALID, "iteration 7 has 1 layers x 2 microbatches");
    assert_int_equal(series.count, -7);
}

// Intervals of a gain, and the verdict that follows from them.

enum { COUNT = 200 };

static ana_gain_interval interval_of(const int64_t *baseline, const int64_t *other, int count)
{
    ana_gain_interval interval;
    ana_gain_interval_of(baseline, other, count, 0.025, 1, memory, &interval);
    return interval;
}

/// Runs whose true gain is 5 %, with independent noise: the interval holds it nearly as often as it
/// says.
TEST(the_interval_covers_the_truth)
{
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
TEST(blocks_are_as_long_as_what_persists)
{
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

TEST(few_iterations_have_no_interval)
{
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
    const ana_ground found = ana_ground_of(&evidence);
    assert_string_equal(ana_grounds[found].name, ana_grounds[ground].name);
    assert_string_equal(ana_verdict_names[ana_grounds[found].verdict], ana_verdict_names[verdict]);
}

TEST(the_verdict_follows_the_rules_in_their_order)
{
    ana_evidence good = evidence_of(0.02, 0.05, 0.2);
    expect(good, ANA_VERDICT_WORTHWHILE, ANA_GROUND_GAIN);
    good.best_over_kept.high = 0.009;
    expect(good, ANA_VERDICT_NOT_WORTHWHILE, ANA_GROUND_ONE_SPLIT);
    good.is_coarse = true;
    expect(good, ANA_VERDICT_UNDECIDABLE, ANA_GROUND_COARSE);
    good.best_over_kept.high = 0.05;
    expect(good, ANA_VERDICT_WORTHWHILE, ANA_GROUND_GAIN);
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

    ana_evidence coarse = evidence_of(-0.01, 0.009, 0.2);
    coarse.is_coarse = true;
    expect(coarse, ANA_VERDICT_UNDECIDABLE, ANA_GROUND_COARSE);
    coarse.bound.high = 0.009; // of these layers, not of those in them
    expect(coarse, ANA_VERDICT_UNDECIDABLE, ANA_GROUND_COARSE);
}

/// Half the width is 1.5 %, the distance to the threshold 0.5 %: nine times the iterations.
TEST(the_iterations_that_would_decide_grow_with_the_square)
{
    const ana_evidence near = evidence_of(0, 0.03, 0.2);
    ana_evidence on_it = evidence_of(0, 0.02, 0.2);

    assert_in_range(ana_iterations_to_decide(&near, 100), 899, 902);
    on_it.best.gain = on_it.threshold_ratio;
    assert_int_equal(ana_iterations_to_decide(&on_it, 100), INT32_MAX);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
