/// Means over microbatches, and the limits of the times.
#include "balance/costs/layer_costs.h"
#include "tests/test.h"
#include "tests/test_memory.h"

static bal_layer_costs costs_with(const int64_t *forward, int columns)
{
    static const int64_t none[8] = {0};
    return (bal_layer_costs){.layer_count = 2,
                             .microbatch_count = columns,
                             .forward_ns = forward,
                             .backward_input_ns = none,
                             .backward_weight_ns = none};
}

TEST(means_are_rounded_half_up_and_keep_the_bytes)
{
    static const int64_t forward[] = {1, 2, 10, 10, 10, 11};
    static const int64_t bytes[] = {7, 8};
    bal_layer_times times;
    bal_layer_costs layers = costs_with(forward, 3);
    layers.state_bytes = bytes;

    bal_layer_times_init(&times, 2, memory);
    assert_ok(bal_layer_times_fill(&times, &layers, NULL));
    assert_int_equal(times.forward_ns[0], 4);  // 13 / 3
    assert_int_equal(times.forward_ns[1], 10); // 31 / 3
    layers = costs_with(forward, 2);
    assert_ok(bal_layer_times_fill(&times, &layers, NULL));
    assert_int_equal(bal_layer_time_ns(&times, 0), 2); // 1.5
    layers.state_bytes = bytes;
    const bal_layer_costs means = bal_layer_times_costs(&times, &layers);

    assert_int_equal(means.microbatch_count, 1);
    assert_int_equal(means.forward_ns[1], 10);
    assert_ptr_equal(means.state_bytes, bytes);
}

TEST(layers_without_any_time_are_refused_unless_another_sample_has_it)
{
    static const int64_t one[] = {0, 0, 0, 3};
    static const int64_t other[] = {0, 1, 0, 0};
    bool has_time[2] = {false};

    const bal_layer_costs layers[] = {costs_with(one, 2), costs_with(other, 2)};
    bal_layer_costs_mark(&layers[0], has_time);
    assert_fails(bal_layers_check_recorded(has_time, 2, &why), STATUS_INVALID,
                 "1 of 2 layers have no time in any pass, layer 0 first: import the files of all "
                 "ranks");

    bal_layer_costs_mark(&layers[1], has_time);
    assert_ok(bal_layers_check_recorded(has_time, 2, NULL));
}

TEST(negative_and_huge_times_are_refused_and_the_largest_are_not)
{
    static const int64_t negative[] = {1, 2, 3, -4};
    static const int64_t huge[] = {1, 2, INT64_MAX / 8 + 1, 0};
    // Together their bits exceed the limit; each of them does not.
    static const int64_t large[] = {INT64_C(1) << 59, (INT64_C(1) << 59) - 1, 0, 0};
    static const int64_t many[] = {INT64_MAX / 4, INT64_MAX / 4};
    bal_layer_times times;
    bal_layer_times_init(&times, 2, memory);

    bal_layer_costs layers = costs_with(negative, 2);
    assert_fails(bal_layer_times_fill(&times, &layers, &why), STATUS_INVALID,
                 "forward_ns of layer 1: -4 ns is outside [0, 1152921504606846975]");
    layers = costs_with(huge, 2);
    assert_int_equal(bal_layer_times_fill(&times, &layers, NULL), STATUS_INVALID);
    layers = costs_with(many, 1);
    assert_fails(bal_layer_times_fill(&times, &layers, &why), STATUS_INVALID,
                 "the times of all layers up to forward_ns of layer 1 exceed "
                 "2305843009213693951 ns");
    layers = costs_with(large, 2);
    assert_ok(bal_layer_times_fill(&times, &layers, NULL));
    assert_int_equal(times.forward_ns[0], INT64_C(1) << 59);
}

enum { LAYERS = 3, COLUMNS = 2 };

typedef struct numbers {
    int64_t times[3][LAYERS * COLUMNS];
    int64_t values[6][LAYERS];
} numbers;

static bal_layer_costs costs_of(const numbers *from)
{
    return (bal_layer_costs){.layer_count = LAYERS,
                             .microbatch_count = COLUMNS,
                             .has_split = true,
                             .forward_ns = from->times[0],
                             .backward_input_ns = from->times[1],
                             .backward_weight_ns = from->times[2],
                             .parameters = from->values[0],
                             .state_bytes = from->values[1],
                             .activation_bytes = from->values[2],
                             .gradient_bytes = from->values[3],
                             .message_bytes = from->values[4],
                             .reduction_ns = from->values[5]};
}

TEST(every_number_is_compared)
{
    numbers original = {0};
    bal_costs_copy copy = {.memory = arena_within(memory, 1 << 10)};
    const bal_layer_costs layers = costs_of(&original);
    assert_false(bal_costs_copy_equals(&copy, &layers));
    bal_costs_copy_take(&copy, &layers);
    assert_true(bal_costs_copy_equals(&copy, &layers));

    for (size_t index = 0; index < sizeof original / sizeof(int64_t); index++) {
        int64_t *number = (int64_t *)&original + index;
        *number = 1;
        assert_false(bal_costs_copy_equals(&copy, &layers));
        *number = 0;
        assert_true(bal_costs_copy_equals(&copy, &layers));
    }
}

TEST(arrays_that_come_or_go_are_seen)
{
    const numbers original = {0};
    bal_costs_copy copy = {.memory = arena_within(memory, 1 << 10)};
    bal_layer_costs layers = costs_of(&original);
    layers.reduction_ns = NULL;
    bal_costs_copy_take(&copy, &layers);

    bal_layer_costs other = layers;
    assert_true(bal_costs_copy_equals(&copy, &other));
    other.reduction_ns = original.values[5];
    assert_false(bal_costs_copy_equals(&copy, &other));
    other = layers;
    other.parameters = NULL;
    assert_false(bal_costs_copy_equals(&copy, &other));
    other = layers;
    other.microbatch_count = 1;
    assert_false(bal_costs_copy_equals(&copy, &other));
    other = layers;
    other.has_split = false;
    assert_false(bal_costs_copy_equals(&copy, &other));
}

TEST(passes_keep_their_shares_and_their_sum)
{
    bal_layer_times like;
    bal_layer_times out;
    bal_layer_times_init(&like, 4, memory);
    bal_layer_times_init(&out, 4, memory);
    const int64_t forward[] = {10, 10, 0, 10};
    const int64_t input[] = {20, 0, 0, 20};
    const int64_t weight[] = {30, 0, 0, 0};
    for (int layer = 0; layer < 4; layer++) {
        like.forward_ns[layer] = forward[layer];
        like.backward_input_ns[layer] = input[layer];
        like.backward_weight_ns[layer] = weight[layer];
    }
    const double whole[] = {601, 7.4, 5, 4};

    bal_layer_times_split(whole, &like, &out);

    const int64_t expected[4][3] = {{100, 200, 301}, {7, 0, 0}, {5, 0, 0}, {1, 3, 0}};
    for (int layer = 0; layer < 4; layer++) {
        assert_int_equal(out.forward_ns[layer], expected[layer][0]);
        assert_int_equal(out.backward_input_ns[layer], expected[layer][1]);
        assert_int_equal(out.backward_weight_ns[layer], expected[layer][2]);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
