/// When a model is pruned and how much stays: the cubic schedule against numbers worked out by hand
/// and those that are published.
#include "exec/model/model.h"
#include "tests/test.h"

/// DynMo's schedule for 10 000 iterations.
static exec_pruning_options published(void)
{
    exec_pruning_options options = exec_model_default().pruning;
    options.start_iteration = 3000;
    options.end_iteration = 7000;
    options.interval = 1000;
    return options;
}

TEST(sparsity_is_that_of_zhu_and_gupta)
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

TEST(steps_are_at_intervals_from_start_to_end)
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

TEST(the_rest_of_the_weights_stays)
{
    assert_int_equal(exec_pruning_kept_count(0, 1000), 1000);
    assert_int_equal(exec_pruning_kept_count(0.9, 1000), 100);
    assert_int_equal(exec_pruning_kept_count(0.5203125, 1000), 480); // 520.3 go
    assert_int_equal(exec_pruning_kept_count(1, 1000), 0);
    assert_int_equal(exec_pruning_kept_count(0.5, 0), 0);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
