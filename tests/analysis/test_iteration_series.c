/// Series: samples are kept, thinned out and summed as the header says.
#include "analysis/diagnosis/iteration_series.h"
#include "tests/assert_close.h"
#include "tests/series_of_loads.h"
#include "tests/test_memory.h"

#include <string.h>

enum { LAYERS = 3, ITERATIONS = 100 };

static void fill(int64_t *loads)
{
    for (int entry = 0; entry < ITERATIONS * LAYERS; entry++) {
        loads[entry] = 10 * (entry / LAYERS) + entry % LAYERS;
    }
}

static void every_sample_is_an_iteration(void **state)
{
    arena *memory = *state;
    int64_t loads[ITERATIONS * LAYERS];
    loads_source source = {
        .layer_count = LAYERS, .iteration_count = ITERATIONS, .load_ns = loads, .sampling = 10};
    const bal_cost_source port = loads_port(&source);
    ana_series series;
    bal_layer_costs costs;
    bool changed = false;
    fill(loads);

    assert_ok(
        ana_series_read(&port, ITERATIONS, ana_series_limits_default(), memory, &series, NULL));

    assert_int_equal(series.count, 10);
    assert_int_equal(series.sample_count, 10);
    assert_int_equal(series.last, 90);
    assert_close(ana_series_spacing(&series), 10, 1e-12);
    assert_int_equal(ana_series_load_ns(&series, 3, 2), 302);
    assert_int_equal(ana_series_before(&series, 3)[LAYERS], 300 + 301 + 302);
    const bal_cost_source again = ana_series_source(&series);
    assert_ok(again.costs_at(again.context, 3, &costs, &changed, NULL));
    assert_true(changed);
    assert_int_equal(costs.forward_ns[1] + costs.backward_input_ns[1], 301);
}

static void samples_beyond_the_limit_are_thinned_out_evenly(void **state)
{
    (void)state;
    int64_t loads[ITERATIONS * LAYERS];
    loads_source source = {.layer_count = LAYERS, .iteration_count = ITERATIONS, .load_ns = loads};
    const bal_cost_source port = loads_port(&source);
    fill(loads);
    for (int limit = 2; limit < ITERATIONS + 10; limit++) {
        ana_series_limits limits = ana_series_limits_default();
        arena *memory = arena_create(1 << 12);
        ana_series series;
        limits.count_max = limit;

        assert_ok(ana_series_read(&port, ITERATIONS, limits, memory, &series, NULL));

        assert_true(series.count <= limit);
        assert_true(series.stride == 1 || 2 * series.count > limit);
        assert_int_equal(series.sample_count, ITERATIONS);
        for (int index = 0; index < series.count; index++) {
            assert_int_equal(series.iteration[index], index * series.stride);
            assert_int_equal(ana_series_load_ns(&series, index, 1), 10 * index * series.stride + 1);
            assert_int_equal(series.costs[index].forward_ns[1] +
                                 series.costs[index].backward_input_ns[1],
                             10 * index * series.stride + 1);
        }
        arena_destroy(memory);
    }
}

static status two_columns(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                          error_message *err)
{
    (void)context;
    (void)err;
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

static void iterations_of_other_layers_are_invalid(void **state)
{
    arena *memory = *state;
    const bal_cost_source port = {.layer_count = 2, .costs_at = two_columns};
    ana_series series = {.count = -7};
    error_message err = {0};

    assert_int_equal(ana_series_read(&port, 9, ana_series_limits_default(), memory, &series, &err),
                     STATUS_INVALID);

    assert_non_null(strstr(err.message, "iteration 7 has 1 layers x 2 microbatches"));
    assert_int_equal(series.count, -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_an_iteration),
        cmocka_unit_test(samples_beyond_the_limit_are_thinned_out_evenly),
        cmocka_unit_test(iterations_of_other_layers_are_invalid),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
