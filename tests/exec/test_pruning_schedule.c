/// When a model is pruned and how much stays: the cubic schedule against numbers worked out by hand
/// and those that are published, and options out of their limits.
#include "exec/mechanism/pruning_schedule.h"
#include "tests/assert_close.h"

/// DynMo's schedule for 10 000 iterations.
static exec_pruning_options published(void)
{
    exec_pruning_options options = exec_pruning_options_default();
    options.start_iteration = 3000;
    options.end_iteration = 7000;
    options.interval = 1000;
    return options;
}

static void sparsity_is_that_of_zhu_and_gupta(void **state)
{
    const exec_pruning_options options = published();

    // 0.9 (1 - (3/4)^3), 0.9 (1 - (1/2)^3), 0.9 (1 - (1/4)^3)
    assert_close(exec_pruning_sparsity(&options, 4000), 0.5203125, 1e-12);
    assert_close(exec_pruning_sparsity(&options, 5000), 0.7875, 1e-12);
    assert_close(exec_pruning_sparsity(&options, 6000), 0.8859375, 1e-12);
    assert_close(exec_pruning_sparsity(&options, 7000), 0.9, 1e-12);
    assert_close(exec_pruning_sparsity(&options, 9999), 0.9, 1e-12);
    assert_true(exec_pruning_sparsity(&options, 2999) == 0);
}

static void steps_are_at_intervals_from_start_to_end(void **state)
{
    exec_pruning_options options = published();

    assert_false(exec_pruning_is_step(&options, 2000));
    assert_false(exec_pruning_is_step(&options, 3000)); // sparsity 0: nothing to do
    assert_true(exec_pruning_is_step(&options, 4000));
    assert_false(exec_pruning_is_step(&options, 4001));
    assert_true(exec_pruning_is_step(&options, 7000));
    assert_false(exec_pruning_is_step(&options, 8000));

    options.initial_sparsity = 0.5;
    assert_true(exec_pruning_is_step(&options, 3000));
}

static void the_rest_of_the_weights_stays(void **state)
{
    assert_int_equal(exec_pruning_kept_count(0, 1000), 1000);
    assert_int_equal(exec_pruning_kept_count(0.9, 1000), 100);
    assert_int_equal(exec_pruning_kept_count(0.5203125, 1000), 480); // 520.3 go
    assert_int_equal(exec_pruning_kept_count(1, 1000), 0);
    assert_int_equal(exec_pruning_kept_count(0.5, 0), 0);
}

static void refused(exec_pruning_options options, const char *message)
{
    error_message err = {0};
    assert_int_equal(exec_pruning_options_check(&options, &err), STATUS_INVALID);
    assert_string_equal(err.message, message);
}

static void options_outside_their_limits_are_refused(void **state)
{
    const exec_pruning_options options = exec_pruning_options_default();
    assert_ok(exec_pruning_options_check(&options, NULL));

    exec_pruning_options wrong = options;
    wrong.start_iteration = -1;
    refused(wrong, "start_iteration -1 is negative");
    wrong = options;
    wrong.end_iteration = 30;
    refused(wrong, "end_iteration 30 is not after start_iteration 30");
    wrong = options;
    wrong.interval = 0;
    refused(wrong, "interval 0 is below 1");
    wrong.interval = 7;
    refused(wrong, "interval 7 does not divide the 40 iterations from start_iteration to "
                   "end_iteration");
    wrong = options;
    wrong.final_sparsity = 1.5;
    refused(wrong, "final_sparsity 1.5 is outside [0, 1]");
    wrong = options;
    wrong.initial_sparsity = 0.95;
    refused(wrong, "initial_sparsity 0.95 is outside [0, final_sparsity 0.9]");
    wrong = options;
    wrong.csr_from = 1.5;
    refused(wrong, "csr_from 1.5 is outside [0, 1]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparsity_is_that_of_zhu_and_gupta),
        cmocka_unit_test(steps_are_at_intervals_from_start_to_end),
        cmocka_unit_test(the_rest_of_the_weights_stays),
        cmocka_unit_test(options_outside_their_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
