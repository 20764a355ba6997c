/// The diagnosis as a whole: what must hold between its figures on any run, and what becomes of a
/// run that was sampled.
#include "analysis/diagnosis/diagnosis.h"
#include "analysis/diagnosis/plan_times.h"
#include "base/arena.h"
#include "tests/assert_close.h"
#include "tests/series_of_loads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 14, ITERATIONS = 60, MICROBATCHES = 6 };

typedef struct fixture {
    arena *memory;
    ana_study study;
    ana_setup setup;
    loads_source source;
    int64_t state_bytes[LAYERS];
    ana_diagnosis diagnosis;
} fixture;

/// Diagnoses a run of layer times in place of those of the model that the study names.
///
/// @param sampling costs change in every sampling-th iteration only
static fixture *diagnose(const int64_t *loads, int sampling, int64_t state_bytes, int stages,
                         const char *schedule)
{
    char text[2048];
    error_message err = {0};
    fixture *opened = memory_array(1, sizeof *opened);
    const ana_diagnosis_options options = ana_diagnosis_options_default();
    assert_non_null(opened);
    opened->memory = arena_create(1 << 16);
    snprintf(text, sizeof text,
             "{\"schema\":\"dynmo-study/1\",\"name\":\"n\",\"model\":\"gpt2\",\"hardware\":"
             "\"h100-sxm\",\"training\":{\"iterations\":%d,\"microbatches\":%d},"
             "\"pipeline\":{\"stages\":%d,\"schedule\":\"%s\"},"
             "\"balancing\":%s}",
             ITERATIONS, MICROBATCHES, stages, schedule, ana_diagnosis_rows);
    assert_ok(ana_study_open_text("n", text, opened->memory, &opened->study, &err));
    assert_ok(ana_setup_open(&opened->study, opened->memory, &opened->setup, &err));
    for (int layer = 0; layer < LAYERS; layer++) {
        opened->state_bytes[layer] = state_bytes;
    }
    opened->source = (loads_source){.layer_count = LAYERS,
                                    .iteration_count = ITERATIONS,
                                    .sampling = sampling,
                                    .load_ns = loads,
                                    .state_bytes = opened->state_bytes};
    opened->setup.source = loads_port(&opened->source);
    const status result = ana_diagnose(&opened->setup, &options, NULL, NULL, opened->memory,
                                       &opened->diagnosis, &err);
    assert_string_equal(err.message, "");
    assert_ok(result);
    return opened;
}

static void close_fixture(fixture *opened)
{
    ana_setup_close(&opened->setup);
    ana_study_close(&opened->study);
    arena_destroy(opened->memory);
    free(opened);
}

static void draw(uint64_t seed, int64_t *loads)
{
    rng generator = rng_init(seed, 1);
    for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
        const bool is_heavy = entry % LAYERS < entry / LAYERS * LAYERS / ITERATIONS;
        loads[entry] = rng_between(&generator, 800000, 1200000) + (is_heavy ? 1500000 : 0);
    }
}

static void gains_are_ordered(void **state)
{
    (void)state;
    static const char *const schedules[] = {"1f1b", "gpipe"};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        static int64_t loads[ITERATIONS * LAYERS];
        draw(seed, loads);

        fixture *given = diagnose(loads, 1, 1000000, 2 + (int)seed, schedules[seed % 2]);

        const ana_diagnosis *of = &given->diagnosis;
        assert_true(of->evidence.bound.gain >= of->kept.gain);
        for (int row = 0; row < given->study.balancing_count; row++) {
            const ana_gain_interval *gain = &of->rows[row].interval;
            assert_true(of->evidence.bound.gain >= gain->gain);
            assert_true(gain->low <= gain->gain && gain->gain <= gain->high);
            assert_true(of->rows[of->baseline].total_ns <= of->rows[row].total_ns ||
                        ana_balancing_is_dynamic(of->rows[row].row->balancing));
        }
        assert_true(of->rows[of->best].interval.gain > 0.02); // the load does move
        close_fixture(given);
    }
}

/// Playing a row's own plan iteration by iteration gives the length that the replay gave the row.
static void plans_take_what_rows_take(void **state)
{
    (void)state;
    static int64_t loads[ITERATIONS * LAYERS];
    int64_t taken[ITERATIONS];
    int64_t sum = 0;
    draw(9, loads);
    fixture *given = diagnose(loads, 1, 1000000, 4, "1f1b");
    const ana_diagnosis *of = &given->diagnosis;

    assert_ok(ana_plan_takes(of->setup, of->series, of->rows[1].row->result.start_first_layer,
                             given->memory, taken, NULL));

    for (int index = 0; index < ITERATIONS; index++) {
        sum += taken[index];
    }
    assert_int_equal(sum, of->rows[1].total_ns); // `tuned`
    assert_int_equal(sum, of->rows[1].row->result.total_ns);
    close_fixture(given);
}

/// A sample stands for two iterations, of which one pays for the moves.
static void a_sampled_run_pays_for_moves_once_per_sample(void **state)
{
    (void)state;
    static int64_t loads[ITERATIONS * LAYERS];
    draw(3, loads);

    fixture *given = diagnose(loads, 2, 500000000, 4, "1f1b");

    const ana_diagnosis *of = &given->diagnosis;
    assert_int_equal(of->series->count, ITERATIONS / 2);
    assert_close(of->spacing, 2, 1e-12);
    for (int row = 0; row < given->study.balancing_count; row++) {
        const ana_row_gain *gain = &of->rows[row];
        const int64_t moving = gain->row->result.migration_ns;
        const int64_t rounding = gain->row->result.rebalance_count;
        assert_true(llabs(gain->overhead_ns - moving / 2) <= rounding + 1);
        assert_int_equal(gain->total_ns, gain->row->result.total_ns - moving + gain->overhead_ns);
    }
    assert_true(of->rows[3].row->result.migration_ns > 0); // partition every:1
    close_fixture(given);
}

/// No split in three stages that is kept has a slowest stage that is faster, by trying them all.
static void the_kept_split_is_the_best_of_all(void **state)
{
    (void)state;
    static int64_t loads[ITERATIONS * LAYERS];
    draw(7, loads);
    fixture *given = diagnose(loads, 1, 1000000, 3, "1f1b");
    const int *found = given->diagnosis.kept_first_layer;
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
    close_fixture(given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gains_are_ordered),
        cmocka_unit_test(plans_take_what_rows_take),
        cmocka_unit_test(a_sampled_run_pays_for_moves_once_per_sample),
        cmocka_unit_test(the_kept_split_is_the_best_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
