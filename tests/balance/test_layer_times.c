/// Means over microbatches, and the limits of the times.
#include "balance/layer_costs.h"
#include "tests/assert_close.h"

static bal_layer_costs costs_with(const int64_t *forward, int columns)
{
    static const int64_t none[8] = {0};
    return (bal_layer_costs){.layer_count = 2,
                             .microbatch_count = columns,
                             .forward_ns = forward,
                             .backward_input_ns = none,
                             .backward_weight_ns = none};
}

static void means_are_rounded_half_up_and_keep_the_bytes(void **state)
{
    (void)state;
    static const int64_t forward[] = {1, 2, 10, 10, 10, 11};
    static const int64_t bytes[] = {7, 8};
    arena *memory = arena_create(1024);
    bal_layer_times times;
    bal_layer_costs layers = costs_with(forward, 3);
    layers.state_bytes = bytes;

    bal_layer_times_init(&times, 2, memory);
    assert_int_equal(bal_layer_times_fill(&times, &layers, NULL), STATUS_OK);
    assert_int_equal(times.forward_ns[0], 4);  // 13 / 3
    assert_int_equal(times.forward_ns[1], 10); // 31 / 3
    layers = costs_with(forward, 2);
    assert_int_equal(bal_layer_times_fill(&times, &layers, NULL), STATUS_OK);
    assert_int_equal(bal_layer_time_ns(&times, 0), 2); // 1.5
    layers.state_bytes = bytes;
    const bal_layer_costs means = bal_layer_times_costs(&times, &layers);

    assert_int_equal(means.microbatch_count, 1);
    assert_int_equal(means.forward_ns[1], 10);
    assert_ptr_equal(means.state_bytes, bytes);
    arena_destroy(memory);
}

static void negative_and_huge_times_are_refused_and_the_largest_are_not(void **state)
{
    (void)state;
    static const int64_t negative[] = {1, 2, 3, -4};
    static const int64_t huge[] = {1, 2, INT64_MAX / 8 + 1, 0};
    // Together their bits exceed the limit; each of them does not.
    static const int64_t large[] = {INT64_C(1) << 59, (INT64_C(1) << 59) - 1, 0, 0};
    static const int64_t many[] = {INT64_MAX / 4, INT64_MAX / 4};
    arena *memory = arena_create(1024);
    bal_layer_times times;
    error_message err = {0};
    bal_layer_times_init(&times, 2, memory);

    bal_layer_costs layers = costs_with(negative, 2);
    assert_int_equal(bal_layer_times_fill(&times, &layers, &err), STATUS_INVALID);
    assert_string_equal(err.message,
                        "forward_ns of layer 1: -4 ns is outside [0, 1152921504606846975]");
    layers = costs_with(huge, 2);
    assert_int_equal(bal_layer_times_fill(&times, &layers, NULL), STATUS_INVALID);
    layers = costs_with(many, 1);
    assert_int_equal(bal_layer_times_fill(&times, &layers, &err), STATUS_INVALID);
    assert_string_equal(err.message, "the times of all layers up to forward_ns of layer 1 exceed "
                                     "2305843009213693951 ns");
    layers = costs_with(large, 2);
    assert_int_equal(bal_layer_times_fill(&times, &layers, NULL), STATUS_OK);
    assert_int_equal(times.forward_ns[0], INT64_C(1) << 59);

    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_rounded_half_up_and_keep_the_bytes),
        cmocka_unit_test(negative_and_huge_times_are_refused_and_the_largest_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
