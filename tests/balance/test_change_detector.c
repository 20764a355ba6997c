/// What counts as a change of the model in a noisy trace.
#include "balance/control/policy.h"
#include "tests/assert_close.h"

/// Two layers of two microbatches each.
static bool observe(bal_change_detector *detector, const int64_t forward[4],
                    const int64_t weight[4])
{
    static const int64_t input[4] = {100, 100, 100, 100};
    return bal_change_detector_observe(detector, &(bal_layer_costs){.layer_count = 2,
                                                                    .microbatch_count = 2,
                                                                    .has_split = true,
                                                                    .forward_ns = forward,
                                                                    .backward_input_ns = input,
                                                                    .backward_weight_ns = weight});
}

static void noise_is_no_change_but_a_frozen_layer_and_a_drift_are(void **state)
{
    (void)state;
    static const int64_t forward[4] = {100, 100, 100, 100};
    static const int64_t noisy[4] = {110, 130, 90, 100};
    static const int64_t weight[4] = {100, 100, 100, 100};
    static const int64_t frozen[4] = {0, 0, 100, 100};
    static const int64_t slower[4] = {100, 100, 190, 190};
    arena *memory = arena_create(1024);
    bal_change_detector detector;
    bal_change_detector_init(&detector, 2, 0.25, memory);

    assert_false(observe(&detector, forward, weight)); // the first is none
    assert_false(observe(&detector, noisy, weight));
    assert_true(observe(&detector, noisy, frozen));    // W of layer 0 is gone
    assert_false(observe(&detector, forward, frozen)); // nothing new
    assert_true(observe(&detector, slower, frozen));   // layer 1: 300 -> 390, 30 %
    assert_false(observe(&detector, slower, frozen));
    assert_true(observe(&detector, slower, weight)); // thawed

    arena_destroy(memory);
}

static void a_slow_drift_adds_up_to_a_change(void **state)
{
    (void)state;
    static const int64_t weight[4] = {100, 100, 100, 100};
    arena *memory = arena_create(1024);
    bal_change_detector detector;
    int changes = 0;
    bal_change_detector_init(&detector, 2, 0.25, memory);

    for (int64_t step = 0; step <= 60; step++) {
        const int64_t forward[4] = {100 + 2 * step, 100 + 2 * step, 100, 100};
        changes += observe(&detector, forward, weight);
    }

    // Layer 0 goes from 300 to 420: it passes 375 once; the next limit is 376 * 1.25 = 470.
    assert_int_equal(changes, 1);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_no_change_but_a_frozen_layer_and_a_drift_are),
        cmocka_unit_test(a_slow_drift_adds_up_to_a_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
