/// Loads that drift: the bounds against the norms of the maps they are of, and against every run;
/// steady states worked out by hand; courses of layers.
#include "analysis/converge/drift/drift.h"
#include "analysis/converge/drift/drift_study.h"
#include "base/rng.h"
#include "tests/assert_close.h"

#include <string.h>

enum { STAGES = 12 };

static const ana_scheme_options no_options;

static const ana_scheme *const bounded[] = {&ana_scheme_first_order, &ana_scheme_second_order,
                                            &ana_scheme_chebyshev, &ana_scheme_odd_even,
                                            &ana_scheme_scan};
enum { BOUNDED_COUNT = sizeof bounded / sizeof bounded[0] };

static ana_graph path_of(int nodes)
{
    ana_graph graph;
    assert_int_equal(ana_graph_make(ANA_GRAPH_PATH, nodes, &graph, NULL), STATUS_OK);
    return graph;
}

/// Plays rounds on values, beginning at a round; what is left, minus the mean.
static void play(const ana_scheme *scheme, int rounds, int64_t first_round, double *values)
{
    const ana_graph graph = path_of(STAGES);
    const ana_coins coins = ana_coins_make(1, 1);
    arena *memory = arena_create(1 << 14);
    ana_scheme_run run;
    double mean = 0;
    assert_int_equal(ana_scheme_open(scheme, &graph, &no_options, memory, &run, NULL), STATUS_OK);
    ana_scheme_begin(&run, values, &coins, first_round);
    for (int round = 0; round < rounds; round++) {
        ana_scheme_play(&run);
    }
    memcpy(values, run.load, STAGES * sizeof *values);
    for (int node = 0; node < STAGES; node++) {
        mean += values[node] / STAGES;
    }
    for (int node = 0; node < STAGES; node++) {
        values[node] -= mean;
    }
    arena_destroy(memory);
}

static double length_of(const double *values)
{
    double squares = 0;
    for (int node = 0; node < STAGES; node++) {
        squares += values[node] * values[node];
    }
    return sqrt(squares);
}

/// The largest stretch of the map of some rounds, by its effect on every cosine mode: exact where
/// the map is symmetric, a lower bound otherwise.
static double stretch_of(const ana_scheme *scheme, int rounds, int64_t first_round)
{
    double largest = 0;
    for (int mode = 1; mode < STAGES; mode++) {
        double values[STAGES];
        for (int node = 0; node < STAGES; node++) {
            values[node] = cos(3.14159265358979 * mode * (node + 0.5) / STAGES);
        }
        const double before = length_of(values);
        play(scheme, rounds, first_round, values);
        const double left = length_of(values) / before;
        if (left > largest) largest = left;
    }
    return largest;
}

static void the_sum_is_that_of_the_powers_of_the_norm(void **state)
{
    (void)state;
    const ana_graph graph = path_of(STAGES);
    static const int rounds[] = {1, 2, 3, 7, 20, 100};
    for (int index = 0; index < 6; index++) {
        for (int scheme = 0; scheme < 3; scheme++) { // those with a symmetric map
            const double norm = stretch_of(bounded[scheme], rounds[index], 0);

            const double sum = ana_drift_sum(bounded[scheme], &graph, &no_options, rounds[index]);

            assert_close(sum / (1 + sum), norm, 1e-6);
        }
    }
}

static void alternating_projections_leave_a_power_less_one(void **state)
{
    (void)state;
    const double contraction = cos(3.14159265358979 / STAGES);
    rng generator = rng_init(5, 0);
    for (int rounds = 1; rounds < 40; rounds++) {
        for (int try = 0; try < 50; try++) {
            double values[STAGES];
            double mean = 0;
            for (int node = 0; node < STAGES; node++) {
                values[node] = rng_unit(&generator);
                mean += values[node] / STAGES;
            }
            for (int node = 0; node < STAGES; node++) {
                values[node] -= mean;
            }
            const double before = length_of(values);
            play(&ana_scheme_odd_even, rounds, try % 2, values);
            assert_true(length_of(values) <= before * pow(contraction, rounds - 1) * (1 + 1e-9));
        }
    }
}

static void a_scan_that_is_cut_short_promises_nothing(void **state)
{
    (void)state;
    const ana_graph graph = path_of(STAGES);
    const ana_graph pair = path_of(2);

    assert_true(isinf(ana_drift_sum(&ana_scheme_scan, &graph, &no_options, 7)));
    assert_close(ana_drift_sum(&ana_scheme_scan, &graph, &no_options, 8), 0, 0);
    assert_close(ana_drift_sum(&ana_scheme_odd_even, &pair, &no_options, 1), 0, 0);
    assert_true(isinf(ana_drift_sum(&ana_scheme_first_order, &graph, &no_options, 0)));
    assert_true(isnan(ana_drift_sum(&ana_scheme_dimension_exchange, &graph, &no_options, 1)));
}

static ana_drift_point measured(const ana_drift_question *question)
{
    ana_drift_point point = {0};
    error_message err = {0};
    if (ana_drift_measure(question, &point, &err) != STATUS_OK) fail_msg("%s", err.message);
    return point;
}

/// Along the slowest mode first-order keeps the direction: what is left is the bound itself.
static void steady_drift_along_the_slowest_mode_leaves_the_geometric_sum(void **state)
{
    (void)state;
    const double contraction = cos(3.14159265358979 / STAGES);
    double length = 0;
    for (int node = 0; node < STAGES; node++) {
        length += pow(cos(3.14159265358979 * (node + 0.5) / STAGES), 2);
    }
    const double gap_of_unit = 2 * cos(3.14159265358979 * 0.5 / STAGES) / sqrt(length);
    for (int rounds = 1; rounds <= 64; rounds *= 4) {
        const ana_drift_question question = {.scheme = &ana_scheme_first_order,
                                             .stage_count = STAGES,
                                             .shape = ANA_DRIFT_SLOW,
                                             .drift = 0.02,
                                             .round_count = rounds,
                                             .instance_count = 1};

        const ana_drift_point point = measured(&question);

        const double left = pow(contraction, rounds) / (1 - pow(contraction, rounds));
        assert_close(point.tracked_max, 0.02 * gap_of_unit * left, 2e-3);
        assert_close(point.executed_max, 0.02 * gap_of_unit * (1 + left), 2e-3);
        assert_close(point.tracked_bound, sqrt(2) * 0.02 * left, 1e-6);
        assert_close(point.drift_max, 0.02, 1e-9);
    }
}

static void no_run_breaks_its_bound(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 8, 17};
    for (int point = 0; point < 4 * (BOUNDED_COUNT + 1) * 7 * 2; point++) {
        const int scheme = point / 14 % (BOUNDED_COUNT + 1);
        const ana_drift_question question = {
            .scheme = scheme < BOUNDED_COUNT ? bounded[scheme] : &ana_scheme_max_neighbor,
            .stage_count = sizes[point / 14 / (BOUNDED_COUNT + 1)],
            .shape = (ana_drift_shape)(point % 2),
            .drift = 0.1,
            .round_count = 1 << point / 2 % 7,
            .instance_count = 5,
            .seed = (uint64_t)point};
        const ana_drift_point found = measured(&question);
        assert_true(found.tracked_max <= found.tracked_bound + 1e-9);
        assert_true(found.executed_max <= found.executed_bound + 1e-9);
    }
}

/// Layer times that drift: a random walk per layer, some layers without time, irregular samples.
static ana_layer_course drawn_course(rng *generator, int layers, int samples, int *iteration,
                                     int64_t *time_ns)
{
    int at = (int)rng_between(generator, 0, 5);
    for (int sample = 0; sample < samples; sample++) {
        iteration[sample] = at;
        at += (int)rng_between(generator, 1, 3);
        for (int layer = 0; layer < layers; layer++) {
            int64_t time = sample == 0 ? rng_between(generator, 500, 1500)
                                       : time_ns[(sample - 1) * layers + layer] +
                                             rng_between(generator, -100, 100);
            if (time < 0 || rng_below(generator, 40) == 0) time = 0;
            time_ns[sample * layers + layer] = time;
        }
        time_ns[sample * layers] += 100; // never nothing at all
    }
    return (ana_layer_course){
        .layer_count = layers, .sample_count = samples, .iteration = iteration, .time_ns = time_ns};
}

static void no_course_breaks_its_bound_and_exact_balance_leaves_the_drift_alone(void **state)
{
    (void)state;
    enum { LAYERS = 20, SAMPLES = 30 };
    rng generator = rng_init(17, 0);
    for (int draw = 0; draw < 40; draw++) {
        int iteration[SAMPLES];
        int64_t time_ns[SAMPLES * LAYERS];
        const ana_layer_course course =
            drawn_course(&generator, LAYERS, SAMPLES, iteration, time_ns);
        for (int scheme = 0; scheme <= BOUNDED_COUNT; scheme++) {
            for (int rounds = 1; rounds <= 27; rounds *= 3) {
                const ana_drift_question question = {
                    .scheme = scheme < BOUNDED_COUNT ? bounded[scheme] : &ana_scheme_max_neighbor,
                    .stage_count = (int)rng_between(&generator, 2, 20),
                    .course = &course,
                    .round_count = rounds,
                    .instance_count = 3,
                    .seed = (uint64_t)draw};
                const ana_drift_point point = measured(&question);
                assert_int_equal(point.iteration_count, iteration[SAMPLES - 1] - iteration[0]);
                assert_true(point.tracked_max <= point.tracked_bound + 1e-9);
                assert_true(point.executed_max <= point.executed_bound + 1e-9);
                assert_true(point.imbalance_mean >= 1 - 1e-9);
                if (question.scheme != &ana_scheme_scan || rounds < 27) continue;
                assert_true(point.tracked_max <= 1e-9);
            }
        }
    }
}

/// Two stages, two layers: the second doubles. Executed with half of the layers each: loads 2/3 and
/// 4/3 of the mean.
static void a_step_is_executed_before_it_is_balanced(void **state)
{
    (void)state;
    const int iteration[] = {3, 4, 5};
    const int64_t time_ns[] = {100, 100, 100, 200, 100, 200};
    const ana_layer_course course = {
        .layer_count = 2, .sample_count = 3, .iteration = iteration, .time_ns = time_ns};
    const ana_drift_question question = {.scheme = &ana_scheme_first_order,
                                         .stage_count = 2,
                                         .course = &course,
                                         .round_count = 1,
                                         .instance_count = 1};
    ana_drift_floor floors[ANA_DRIFT_FLOORS];
    arena *memory = arena_create(1 << 14);

    const ana_drift_point point = measured(&question);
    assert_int_equal(ana_drift_floors(&course, 2, memory, floors, NULL), STATUS_OK);

    assert_int_equal(point.iteration_count, 2);
    assert_close(point.executed_max, 2.0 / 3, 1e-9);
    assert_close(point.executed_mean, 1.0 / 3, 1e-9);
    assert_close(point.imbalance_max, 4.0 / 3, 1e-9);
    assert_close(point.tracked_max, 0, 0); // two stages average in one round
    assert_string_equal(floors[1].balancer, "partition");
    assert_close(floors[1].gap_max, 2.0 / 3, 1e-9);
    assert_close(floors[1].moved_mean, 0, 0);
    arena_destroy(memory);
}

static void the_budget_is_the_fewest_rounds_that_stay_within(void **state)
{
    (void)state;
    enum { LAYERS = 24, SAMPLES = 20 };
    rng generator = rng_init(23, 0);
    int iteration[SAMPLES];
    int64_t time_ns[SAMPLES * LAYERS];
    const ana_layer_course course = drawn_course(&generator, LAYERS, SAMPLES, iteration, time_ns);
    for (int scheme = 0; scheme < BOUNDED_COUNT; scheme++) {
        ana_drift_question question = {
            .scheme = bounded[scheme], .stage_count = 8, .course = &course, .instance_count = 1};
        ana_drift_point budget;
        bool is_found = false;

        assert_int_equal(ana_drift_budget(&question, 0.05, &budget, &is_found, NULL), STATUS_OK);

        assert_true(is_found);
        assert_true(budget.tracked_max <= 0.05);
        question.round_count = budget.round_count;
        assert_close(measured(&question).tracked_max, budget.tracked_max, 0);
        question.round_count = budget.round_count - 1;
        assert_true(question.round_count == 0 || measured(&question).tracked_max > 0.05);
    }
}

static void questions_without_an_answer_are_refused(void **state)
{
    (void)state;
    const int iteration[] = {0, 1};
    const int64_t time_ns[] = {1, 2, 3, 4};
    const int far_apart[] = {0, ANA_DRIFT_ITERATIONS_MAX + 1};
    ana_layer_course course = {
        .layer_count = 2, .sample_count = 2, .iteration = iteration, .time_ns = time_ns};
    ana_drift_question question = {.scheme = &ana_scheme_first_order,
                                   .stage_count = 3,
                                   .course = &course,
                                   .round_count = 1,
                                   .instance_count = 1};
    ana_drift_point point = {.round_count = -7};
    error_message err = {0};

    assert_int_equal(ana_drift_measure(&question, &point, &err), STATUS_INVALID);
    assert_string_equal(err.message, "2 layers do not make 3 stages");
    question.stage_count = 2;
    question.scheme = &ana_scheme_dimension_exchange;
    assert_int_equal(ana_drift_measure(&question, &point, &err), STATUS_UNSUPPORTED);
    assert_string_equal(err.message, "no bound on drift is known for dimension-exchange");
    question.scheme = &ana_scheme_first_order;
    course.sample_count = 1;
    assert_int_equal(ana_drift_measure(&question, &point, &err), STATUS_INVALID);
    assert_string_equal(err.message, "one iteration does not drift: two samples are needed");
    course.sample_count = 2;
    course.iteration = far_apart;
    assert_int_equal(ana_drift_measure(&question, &point, &err), STATUS_INVALID);
    assert_string_equal(err.message, "1048577 iterations are more than 1048576");
    assert_int_equal(point.round_count, -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_that_of_the_powers_of_the_norm),
        cmocka_unit_test(alternating_projections_leave_a_power_less_one),
        cmocka_unit_test(a_scan_that_is_cut_short_promises_nothing),
        cmocka_unit_test(steady_drift_along_the_slowest_mode_leaves_the_geometric_sum),
        cmocka_unit_test(no_run_breaks_its_bound),
        cmocka_unit_test(no_course_breaks_its_bound_and_exact_balance_leaves_the_drift_alone),
        cmocka_unit_test(a_step_is_executed_before_it_is_balanced),
        cmocka_unit_test(the_budget_is_the_fewest_rounds_that_stay_within),
        cmocka_unit_test(questions_without_an_answer_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
