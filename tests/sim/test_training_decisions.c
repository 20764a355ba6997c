/// The replay under the controller: what a decision is shown, when it takes effect and what it is
/// charged. Links cost nothing unless a test says so, and layers are F alone: under GPipe an
/// iteration of two ranks with loads a and b and M microbatches lasts a + b + (M - 1) max(a, b).
#include "base/arena.h"
#include "tests/sim/kept_run.h"

static bal_training two_ranks(const table_source *table, int iterations, const char *policy)
{
    bal_training training = kept_training(table, 1, 2, iterations, 2);
    training.balancer = bal_balancer_find("partition");
    require(bal_policy_parse(policy, &training.policy, &why));
    return training;
}

/// Four layers of 100; in even iterations the first has 300, in odd ones the last.
static table_source *swinging_load(int iterations)
{
    table_source *table = tables(1, 4, 1);
    table_fill(table, 0, iterations, 100, 0, 0);
    for (int iteration = 0; iteration < iterations; iteration++) {
        table->forward[iteration][iteration % 2 == 0 ? 0 : 3] = 300;
    }
    return table;
}

TEST(a_profile_comes_an_iteration_late)
{
    table_source *table = swinging_load(6);
    const bal_training training = two_ranks(table, 6, "every-iteration");

    const bal_training_result result = replay(&training);

    assert_int_equal(all.iterations[0].iteration_ns, 300 + 2 * 300); // the plan of the start
    for (int iteration = 1; iteration < 6; iteration++) {
        assert_int_equal(all.first_layer[iteration][1], iteration % 2 == 0 ? 3 : 1);
        assert_int_equal(all.iterations[iteration].iteration_ns, 100 + 2 * 500);
    }
    // The decision after iteration 0 keeps the plan that was made for it.
    assert_int_equal(result.decision_count, 6);
    assert_int_equal(result.rebalance_count, 5);
    assert_int_equal(result.change_count, 5);
}

TEST(foresight_has_the_right_plan_in_every_iteration)
{
    table_source *table = swinging_load(6);
    bal_training training = two_ranks(table, 6, "every-iteration");
    training.information = BAL_INFORMATION_FORESIGHT;

    const bal_training_result result = replay(&training);

    for (int iteration = 0; iteration < 6; iteration++) {
        assert_int_equal(all.first_layer[iteration][1], iteration % 2 == 0 ? 1 : 3);
        assert_int_equal(all.iterations[iteration].iteration_ns, 300 + 2 * 300);
        assert_int_equal(all.iterations[iteration].changed, iteration > 0);
        assert_int_equal(table->asked[iteration], 1);
    }
    assert_int_equal(result.rebalance_count, 5);
    assert_int_equal(result.simulated_count, 6);
}

TEST(foresight_sees_how_slow_a_rank_will_be)
{
    table_source *table = tables(1, 6, 1);
    table_fill(table, 0, 4, 100, 0, 0);
    const bal_slow_rank slow = {
        .rank = 1, .time_factor = 2, .first_iteration = 2, .end_iteration = 4};
    bal_training training = two_ranks(table, 4, "every-iteration");
    training.slow_ranks = &slow;
    training.slow_rank_count = 1;
    training.information = BAL_INFORMATION_FORESIGHT;

    replay(&training);

    assert_int_equal(all.first_layer[1][1], 3);
    assert_int_equal(all.first_layer[2][1], 4); // 400 and 2 * 200, decided after iteration 1
    assert_int_equal(all.iterations[2].iteration_ns, 400 + 2 * 400);
}

TEST(numbers_may_differ_where_no_change_is_announced)
{
    table_source *table = swinging_load(6);
    memcpy(table->forward[4], table->forward[5], sizeof table->forward[4]);
    table->is_quiet = true;
    const bal_training training = two_ranks(table, 6, "on-change");

    const bal_training_result result = replay(&training);

    // Under the plan of the start: 300 and 300, then 100 and 500.
    const int64_t expected_ns[] = {900, 1100, 900, 1100, 1100, 1100};
    for (int iteration = 0; iteration < 6; iteration++) {
        assert_int_equal(all.iterations[iteration].iteration_ns, expected_ns[iteration]);
        assert_false(all.iterations[iteration].changed);
    }
    assert_int_equal(result.decision_count, 0);
    assert_int_equal(result.simulated_count, 4);
}

TEST(profiling_is_charged_where_a_decision_looks)
{
    table_source *table = tables(1, 4, 1);
    table_fill(table, 0, 3, 100, 0, 0);
    table_fill(table, 3, 6, 300, 0, 0);
    const struct {
        const char *policy;
        bool announces;
        const char *balancer;
        const char *profiled; // one digit per iteration
    } cases[] = {
        {"never", true, "partition", "000000"},
        {"on-change", true, "partition", "000100"},
        {"on-change", false, "partition", "111111"},
        {"every:2", true, "partition", "010101"},
        {"threshold:0.5", true, "partition", "111111"},
        {"shadow", true, "partition", "111111"},
        {"every:2", true, "even", "000000"},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        table->source.announces_changes = cases[each].announces;
        bal_training training = two_ranks(table, 6, cases[each].policy);
        training.balancer = bal_balancer_find(cases[each].balancer);
        training.profile_ns = 17;

        const bal_training_result result = replay(&training);

        int64_t sum = 0;
        for (int iteration = 0; iteration < 6; iteration++) {
            const int64_t expected = cases[each].profiled[iteration] == '1' ? 17 : 0;
            assert_int_equal(all.iterations[iteration].profile_ns, expected);
            sum += expected;
        }
        assert_int_equal(result.profile_ns, sum);
    }
}

TEST(the_parts_sum_to_the_iteration)
{
    table_source *table = swinging_load(6);
    for (int layer = 0; layer < 4; layer++) {
        table->state_bytes[layer] = 1000;
        table->reduction_ns[layer] = 10;
    }
    bal_training training = two_ranks(table, 6, "every:2");
    training.machine.intra_node = (bal_link){.latency_ns = 5, .bytes_per_s = 1000000000};
    training.data_parallel = 4;
    training.optimizer_step_ns = 3;
    training.decision_ns = 7;
    training.profile_ns = 11;

    const bal_training_result result = replay(&training);

    int64_t total_ns = 0;
    for (int iteration = 0; iteration < 6; iteration++) {
        const bal_training_iteration *one = &all.iterations[iteration];
        const bool decides = iteration % 2 == 1;
        assert_int_equal(one->iteration_ns, one->pipeline_ns + one->reduction_ns + 3 +
                                                one->profile_ns + one->decision_ns +
                                                one->migration_ns);
        assert_int_equal(one->was_asked, decides);
        assert_int_equal(one->decision_ns, decides ? 7 : 0);
        assert_int_equal(one->profile_ns, decides ? 11 : 0);
        assert_int_equal(one->reduction_ns, all.first_layer[iteration][1] == 2 ? 20 : 30);
        // Behind iteration 1 two layers leave rank 1: 2 x (5 + 1000) ns.
        assert_int_equal(one->migration_ns, iteration == 1 ? 2010 : 0);
        assert_int_equal(one->action, iteration == 1 ? BAL_ACTION_REBALANCE : BAL_ACTION_KEEP);
        total_ns += one->iteration_ns;
    }
    assert_int_equal(result.total_ns, total_ns);
    assert_int_equal(result.migration_ns, 2010);
    assert_int_equal(result.moved_layer_count, 2);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
