/// A copy of layer costs: equal until one number is another, whatever becomes of the original.
#include "balance/layer_costs.h"
#include "tests/assert_close.h"

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

static void every_number_is_compared(void **state)
{
    (void)state;
    numbers original = {0};
    bal_costs_copy copy = {0};
    const bal_layer_costs layers = costs_of(&original);
    assert_false(bal_costs_copy_equals(&copy, &layers));
    assert_int_equal(bal_costs_copy_take(&copy, &layers), STATUS_OK);
    assert_true(bal_costs_copy_equals(&copy, &layers));

    for (size_t index = 0; index < sizeof original / sizeof(int64_t); index++) {
        int64_t *number = (int64_t *)&original + index;
        *number = 1;
        assert_false(bal_costs_copy_equals(&copy, &layers));
        *number = 0;
        assert_true(bal_costs_copy_equals(&copy, &layers));
    }
    bal_costs_copy_free(&copy);
    assert_false(bal_costs_copy_equals(&copy, &layers));
}

static void arrays_that_come_or_go_are_seen(void **state)
{
    (void)state;
    const numbers original = {0};
    bal_costs_copy copy = {0};
    bal_layer_costs layers = costs_of(&original);
    layers.reduction_ns = NULL;
    assert_int_equal(bal_costs_copy_take(&copy, &layers), STATUS_OK);

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
    bal_costs_copy_free(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_compared),
        cmocka_unit_test(arrays_that_come_or_go_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
