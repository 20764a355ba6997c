/// Names of policies, and when they ask.
#include "balance/control/policy.h"
#include "tests/test.h"
#include "tests/test_memory.h"

TEST(policies_read_back_as_written)
{
    static const char *const names[] = {"never",   "on-change",      "every:7",
                                        "every:1", "threshold:0.05", "shadow"};
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index++) {
        bal_policy policy;
        assert_ok(bal_policy_parse(names[index], &policy, NULL));
        assert_string_equal(bal_policy_name(policy).text, names[index]);
    }
    bal_policy every;
    assert_ok(bal_policy_parse("every-iteration", &every, NULL));
    assert_int_equal(every.period, 1);
}

TEST(unknown_policies_and_periods_below_one_are_refused)
{
    bal_policy policy = {.kind = BAL_POLICY_EVERY, .period = 42};

    assert_fails(bal_policy_parse("sometimes", &policy, &why), STATUS_INVALID,
                 "unknown policy 'sometimes'; known: never, on-change, every:N, "
                 "every-iteration, threshold:x, shadow");
    assert_fails(bal_policy_parse("every:0", &policy, &why), STATUS_INVALID,
                 "policy every:N: 0 is outside [1, 1000000000]");
    assert_int_equal(bal_policy_parse("every:x", &policy, &why), STATUS_INVALID);
    assert_fails(bal_policy_parse("threshold:1.5", &policy, &why), STATUS_INVALID,
                 "policy threshold:x: 1.5 is outside [0, 1]");
    assert_int_equal(bal_policy_parse("threshold:-0.1", &policy, &why), STATUS_INVALID);
    assert_int_equal(bal_policy_parse("threshold:nan", &policy, &why), STATUS_INVALID);
    assert_int_equal(policy.period, 42);
}

TEST(every_n_asks_after_each_nth_iteration)
{
    const bal_policy every = {.kind = BAL_POLICY_EVERY, .period = 3};
    static const bool expected[] = {false, false, true, false, false, true};

    for (int iteration = 0; iteration < 6; iteration++) {
        assert_int_equal(bal_policy_asks(every, iteration, false), expected[iteration]);
    }
    assert_false(bal_policy_asks((bal_policy){.kind = BAL_POLICY_NEVER}, 0, true));
    assert_true(bal_policy_asks((bal_policy){.kind = BAL_POLICY_ON_CHANGE}, 0, true));
    assert_false(bal_policy_asks((bal_policy){.kind = BAL_POLICY_ON_CHANGE}, 0, false));
    assert_true(bal_policy_asks((bal_policy){.kind = BAL_POLICY_THRESHOLD}, 0, false));
    assert_false(bal_policy_asks((bal_policy){.kind = BAL_POLICY_SHADOW}, 0, true));
}

/// Two layers of two microbatches each.
static bool observe(bal_change_detector *detector, const int64_t forward[4],
                    const int64_t weight[4])
{
    static const int64_t input[4] = {100, 100, 100, 100};
    const bal_layer_costs layers = {.layer_count = 2,
                                    .microbatch_count = 2,
                                    .has_split = true,
                                    .forward_ns = forward,
                                    .backward_input_ns = input,
                                    .backward_weight_ns = weight};
    bal_layer_times times;
    bal_layer_times_init(&times, 2, memory);
    assert_ok(bal_layer_times_fill(&times, &layers, NULL));
    return bal_change_detector_observe(detector, &times);
}

TEST(noise_is_no_change_but_a_frozen_layer_and_a_drift_are)
{
    static const int64_t forward[4] = {100, 100, 100, 100};
    static const int64_t noisy[4] = {110, 130, 90, 100};
    static const int64_t weight[4] = {100, 100, 100, 100};
    static const int64_t frozen[4] = {0, 0, 100, 100};
    static const int64_t slower[4] = {100, 100, 190, 190};
    bal_change_detector detector;
    bal_change_detector_init(&detector, 2, 0.25, memory);

    assert_false(observe(&detector, forward, weight)); // the first is none
    assert_false(observe(&detector, noisy, weight));
    assert_true(observe(&detector, noisy, frozen));    // W of layer 0 is gone
    assert_false(observe(&detector, forward, frozen)); // nothing new
    assert_true(observe(&detector, slower, frozen));   // layer 1: 300 -> 390, 30 %
    assert_false(observe(&detector, slower, frozen));
    assert_true(observe(&detector, slower, weight)); // thawed
}

TEST(a_slow_drift_adds_up_to_a_change)
{
    static const int64_t weight[4] = {100, 100, 100, 100};
    bal_change_detector detector;
    int changes = 0;
    bal_change_detector_init(&detector, 2, 0.25, memory);

    for (int64_t step = 0; step <= 60; step++) {
        const int64_t forward[4] = {100 + 2 * step, 100 + 2 * step, 100, 100};
        changes += observe(&detector, forward, weight);
    }

    // Layer 0 goes from 300 to 420: it passes 375 once; the next limit is 376 * 1.25 = 470.
    assert_int_equal(changes, 1);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
