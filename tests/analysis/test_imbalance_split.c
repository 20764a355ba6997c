/// The split of the imbalance: against every plan tried as plainly as the definitions say, and on
/// runs whose truth is known because it was put in.
#include "analysis/diagnosis/imbalance_split.h"
#include "tests/assert_close.h"
#include "tests/series_of_loads.h"

#include <string.h>

enum { SMALL_LAYERS = 7, SMALL_STAGES = 3, SMALL_ITERATIONS = 9 };

static ana_imbalance_split split_of(loads_series *opened, int stages)
{
    ana_imbalance_split split;
    error_message err = {0};
    const status result =
        ana_imbalance_split_of(&opened->series, stages, opened->memory, &split, &err);
    assert_string_equal(err.message, "");
    assert_ok(result);
    return split;
}

/// The slowest of three stages that end before layers a, b and the last one.
static int64_t slowest(const int64_t *loads, int a, int b)
{
    int64_t sums[SMALL_STAGES] = {0};
    int64_t most = 0;
    for (int layer = 0; layer < SMALL_LAYERS; layer++) {
        sums[layer < a ? 0 : layer < b ? 1 : 2] += loads[layer];
    }
    for (int stage = 0; stage < SMALL_STAGES; stage++) {
        most = sums[stage] > most ? sums[stage] : most;
    }
    return most;
}

/// The best plan for added-up loads, as the least slowest stage.
static int64_t best_plan(const int64_t *loads)
{
    int64_t best = INT64_MAX;
    for (int a = 1; a < SMALL_LAYERS - 1; a++) {
        for (int b = a + 1; b < SMALL_LAYERS; b++) {
            const int64_t value = slowest(loads, a, b);
            best = value < best ? value : best;
        }
    }
    return best;
}

static int64_t best_kept(const int64_t *loads)
{
    int64_t best = INT64_MAX;
    for (int a = 1; a < SMALL_LAYERS - 1; a++) {
        for (int b = a + 1; b < SMALL_LAYERS; b++) {
            int64_t sum = 0;
            for (int index = 0; index < SMALL_ITERATIONS; index++) {
                sum += slowest(loads + index * SMALL_LAYERS, a, b);
            }
            best = sum < best ? sum : best;
        }
    }
    return best;
}

static int64_t sum_of_best(const int64_t *loads)
{
    int64_t sum = 0;
    for (int index = 0; index < SMALL_ITERATIONS; index++) {
        sum += best_plan(loads + index * SMALL_LAYERS);
    }
    return sum;
}

static int64_t sum_of_shares(const int64_t *loads, bool whole_layers)
{
    int64_t sum = 0;
    for (int index = 0; index < SMALL_ITERATIONS; index++) {
        int64_t total = 0;
        int64_t largest = 0;
        for (int layer = 0; layer < SMALL_LAYERS; layer++) {
            const int64_t load = loads[index * SMALL_LAYERS + layer];
            total += load;
            largest = load > largest ? load : largest;
        }
        const int64_t share = (total + SMALL_STAGES - 1) / SMALL_STAGES;
        sum += whole_layers && largest > share ? largest : share;
    }
    return sum;
}

static void every_level_is_what_trying_all_plans_finds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        rng generator = rng_init(seed, 1);
        int64_t loads[SMALL_ITERATIONS * SMALL_LAYERS];
        for (int entry = 0; entry < SMALL_ITERATIONS * SMALL_LAYERS; entry++) {
            loads[entry] = rng_between(&generator, 0, 1000);
        }
        loads_series *given = loads_open(loads, SMALL_LAYERS, SMALL_ITERATIONS);

        const ana_imbalance_split split = split_of(given, SMALL_STAGES);

        assert_int_equal(split.level_ns[ANA_LEVEL_STATIC], best_kept(loads));
        assert_true(split.static_is_optimal);
        assert_int_equal(split.level_ns[ANA_LEVEL_CLAIRVOYANT], sum_of_best(loads));
        assert_int_equal(split.level_ns[ANA_LEVEL_ANY_OWNER], sum_of_shares(loads, true));
        assert_int_equal(split.level_ns[ANA_LEVEL_DIVISIBLE], sum_of_shares(loads, false));
        assert_true(split.static_lower_bound_ns <= split.level_ns[ANA_LEVEL_STATIC]);
        assert_int_equal(slowest(loads, split.tuned_first_layer[1], split.tuned_first_layer[2]),
                         best_plan(loads));
        loads_close(given);
    }
}

static void levels_are_ordered_and_parts_add_up(void **state)
{
    (void)state;
    enum { LAYERS = 40, ITERATIONS = 60 };
    for (uint64_t seed = 1; seed <= 10; seed++) {
        rng generator = rng_init(seed, 2);
        int64_t loads[ITERATIONS * LAYERS];
        for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
            loads[entry] = rng_between(&generator, 0, 100000);
        }
        loads_series *given = loads_open(loads, LAYERS, ITERATIONS);

        const ana_imbalance_split split = split_of(given, 2 + (int)seed);

        int64_t sum = 0;
        for (int part = 0; part < ANA_SPLIT_COUNT; part++) {
            sum += ana_imbalance_part_ns(&split, (ana_imbalance_part)part);
            assert_true(part == ANA_SPLIT_STATIC ||
                        ana_imbalance_part_ns(&split, (ana_imbalance_part)part) >= 0);
        }
        assert_int_equal(sum, split.level_ns[ANA_LEVEL_EVEN] - split.level_ns[ANA_LEVEL_DIVISIBLE]);
        assert_true(split.level_ns[ANA_LEVEL_STATIC] <= split.level_ns[ANA_LEVEL_EVEN]);
        assert_true(split.static_lower_bound_ns <= split.level_ns[ANA_LEVEL_STATIC]);
        loads_close(given);
    }
}

/// Windows worked out anew for every iteration: sums of the samples around it, itself left out.
static int64_t drift_of_width(const int64_t *loads, int width)
{
    int64_t sum = 0;
    for (int index = 0; index < SMALL_ITERATIONS; index++) {
        int64_t around[SMALL_LAYERS] = {0};
        int best_a = 0;
        int best_b = 0;
        for (int other = index - width; other <= index + width; other++) {
            if (other < 0 || other >= SMALL_ITERATIONS || other == index) continue;
            for (int layer = 0; layer < SMALL_LAYERS; layer++) {
                around[layer] += loads[other * SMALL_LAYERS + layer];
            }
        }
        const int64_t best = best_plan(around);
        for (int a = 1; a < SMALL_LAYERS - 1; a++) { // ties: every cut as far behind as it may be
            for (int b = a + 1; b < SMALL_LAYERS; b++) {
                if (slowest(around, a, b) == best && a >= best_a && b >= best_b) {
                    best_a = a;
                    best_b = b;
                }
            }
        }
        sum += slowest(loads + index * SMALL_LAYERS, best_a, best_b);
    }
    return sum;
}

static void drift_leaves_the_iteration_itself_out(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        rng generator = rng_init(seed, 3);
        int64_t loads[SMALL_ITERATIONS * SMALL_LAYERS];
        for (int entry = 0; entry < SMALL_ITERATIONS * SMALL_LAYERS; entry++) {
            loads[entry] = rng_between(&generator, 1, 1000000007);
        }
        loads_series *given = loads_open(loads, SMALL_LAYERS, SMALL_ITERATIONS);

        const ana_imbalance_split split = split_of(given, SMALL_STAGES);

        int64_t best = best_kept(loads);
        for (int width = 1; width < SMALL_ITERATIONS; width *= 4) {
            const int64_t sum = drift_of_width(loads, width);
            best = sum < best ? sum : best;
        }
        assert_int_equal(split.level_ns[ANA_LEVEL_DRIFT], best);
        loads_close(given);
    }
}

/// Shares of the difference between `even` and clairvoyant that the parts have.
typedef struct shares {
    double fixed; // static and another kept split
    double drift;
    double noise;
} shares;

static shares shares_of(const ana_imbalance_split *split)
{
    const double whole =
        (double)(split->level_ns[ANA_LEVEL_EVEN] - split->level_ns[ANA_LEVEL_CLAIRVOYANT]);
    return (shares){.fixed = (double)(ana_imbalance_part_ns(split, ANA_SPLIT_STATIC) +
                                      ana_imbalance_part_ns(split, ANA_SPLIT_FIRST)) /
                             whole,
                    .drift = (double)ana_imbalance_part_ns(split, ANA_SPLIT_DRIFT) / whole,
                    .noise = (double)ana_imbalance_part_ns(split, ANA_SPLIT_NOISE) / whole};
}

enum { TRUTH_LAYERS = 24, TRUTH_ITERATIONS = 400, TRUTH_STAGES = 4 };

static shares split_truth(const int64_t *loads)
{
    loads_series *given = loads_open(loads, TRUTH_LAYERS, TRUTH_ITERATIONS);
    const ana_imbalance_split split = split_of(given, TRUTH_STAGES);
    const shares result = shares_of(&split);
    loads_close(given);
    return result;
}

static void what_never_changes_is_static(void **state)
{
    (void)state;
    static int64_t loads[TRUTH_ITERATIONS * TRUTH_LAYERS];
    for (int entry = 0; entry < TRUTH_ITERATIONS * TRUTH_LAYERS; entry++) {
        loads[entry] = entry % TRUTH_LAYERS < 6 ? 4000 : 1000;
    }

    const shares result = split_truth(loads);

    assert_close(result.fixed, 1.0, 1e-12);
    assert_true(result.drift == 0 && result.noise == 0);
}

static void independent_noise_is_noise(void **state)
{
    (void)state;
    static int64_t loads[TRUTH_ITERATIONS * TRUTH_LAYERS];
    rng generator = rng_init(5, 5);
    for (int entry = 0; entry < TRUTH_ITERATIONS * TRUTH_LAYERS; entry++) {
        loads[entry] = rng_between(&generator, 500, 1500);
    }

    const shares result = split_truth(loads);

    assert_true(result.noise > 0.9);
    assert_true(result.drift < 0.02);
}

static void a_heavy_layer_that_wanders_is_drift(void **state)
{
    (void)state;
    static int64_t loads[TRUTH_ITERATIONS * TRUTH_LAYERS];
    for (int index = 0; index < TRUTH_ITERATIONS; index++) {
        for (int layer = 0; layer < TRUTH_LAYERS; layer++) {
            const int turn = TRUTH_ITERATIONS * layer / TRUTH_LAYERS;
            const int away = abs(index - turn);
            loads[index * TRUTH_LAYERS + layer] = 1000 + (away < 100 ? 30 * (100 - away) : 0);
        }
    }

    const shares result = split_truth(loads);

    assert_true(result.drift > 0.9 * (result.drift + result.noise));
    assert_true(result.drift > 0.5);
}

static void steps_are_drift(void **state)
{
    (void)state;
    static int64_t loads[TRUTH_ITERATIONS * TRUTH_LAYERS];
    for (int entry = 0; entry < TRUTH_ITERATIONS * TRUTH_LAYERS; entry++) {
        const int era = entry / TRUTH_LAYERS / 100; // four eras, another quarter heavy in each
        loads[entry] = entry % TRUTH_LAYERS / 6 == era ? 5000 : 1000;
    }

    const shares result = split_truth(loads);

    assert_true(result.drift > 0.4);
    assert_true(result.noise < 0.05 * result.drift);
}

static void more_stages_than_layers_are_invalid(void **state)
{
    (void)state;
    const int64_t loads[] = {1, 2, 3};
    loads_series *given = loads_open(loads, 3, 1);
    ana_imbalance_split split = {.stage_count = -7};

    assert_int_not_equal(ana_imbalance_split_of(&given->series, 4, given->memory, &split, NULL),
                         STATUS_OK);

    assert_int_equal(split.stage_count, -7);
    loads_close(given);
}

static void times_that_do_not_fit_are_invalid(void **state)
{
    (void)state;
    const int64_t huge = INT64_MAX / 20;
    const int64_t loads[] = {huge, huge, huge, huge};
    loads_series *given = loads_open(loads, 2, 2);
    ana_imbalance_split split;
    error_message err = {0};

    assert_ok(ana_imbalance_split_of(&given->series, 2, given->memory, &split, &err));
    loads_close(given);
    const int64_t larger = INT64_MAX / 9;
    const int64_t too_many[] = {larger, larger, larger, larger};
    given = loads_open(too_many, 2, 2);
    assert_int_equal(ana_imbalance_split_of(&given->series, 2, given->memory, &split, &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.message, "2 such iterations do not fit 64 bits"));
    loads_close(given);
}

static void searching_finds_what_enumerating_does_where_one_cut_is_off(void **state)
{
    (void)state;
    enum { LAYERS = 60, ITERATIONS = 40, STAGES = 12 }; // too many plans to try all
    static int64_t loads[ITERATIONS * LAYERS];
    int plan[STAGES + 1];
    int64_t sum = 0;
    bool is_optimal = true;
    for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
        loads[entry] = 1000;
    }
    for (int stage = 0; stage <= STAGES; stage++) {
        plan[stage] = stage * LAYERS / STAGES + (stage == 5 ? 2 : 0);
    }
    loads_series *given = loads_open(loads, LAYERS, ITERATIONS);

    ana_static_plan_improve(&given->series, STAGES, given->memory, plan, &sum, &is_optimal);

    assert_false(is_optimal);
    assert_int_equal(sum, INT64_C(1000) * (LAYERS / STAGES) * ITERATIONS);
    assert_int_equal(plan[5], 25);
    loads_close(given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_is_what_trying_all_plans_finds),
        cmocka_unit_test(levels_are_ordered_and_parts_add_up),
        cmocka_unit_test(drift_leaves_the_iteration_itself_out),
        cmocka_unit_test(what_never_changes_is_static),
        cmocka_unit_test(independent_noise_is_noise),
        cmocka_unit_test(a_heavy_layer_that_wanders_is_drift),
        cmocka_unit_test(steps_are_drift),
        cmocka_unit_test(more_stages_than_layers_are_invalid),
        cmocka_unit_test(times_that_do_not_fit_are_invalid),
        cmocka_unit_test(searching_finds_what_enumerating_does_where_one_cut_is_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
