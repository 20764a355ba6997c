/// The replay of a run: what is charged, when a decision takes effect, and what is skipped. The
/// source is a chain of unit layers whose load moves at a known iteration.
#include "tests/sim/kept_run.h"
#include "tests/test_memory.h"

enum { LAYERS = 8, ITERATIONS = 10, CHANGE_AT = 5 };

/// Layers of 1000 ns and bytes; from the change on the first four cost nothing but 1 ns.
static table_source *moving_load(void)
{
    table_source *table = tables(1, LAYERS, 1);
    table_fill(table, 0, ITERATIONS, 1000, 0, 0);
    for (int layer = 0; layer < LAYERS; layer++) {
        table->state_bytes[layer] = 1000;
        for (int iteration = CHANGE_AT; layer < LAYERS / 2 && iteration < ITERATIONS; iteration++) {
            table->forward[iteration][layer] = 1;
        }
    }
    return table;
}

static bal_training training_with(const table_source *table, const char *balancer,
                                  bal_policy policy)
{
    bal_training training = kept_training(table, 1, 2, ITERATIONS, 4);
    training.machine.intra_node = (bal_link){.latency_ns = 10, .bytes_per_s = 1000000000};
    training.balancer = bal_balancer_find(balancer);
    training.policy = policy;
    return training;
}

static bool wants_seven(void *context, int iteration)
{
    return iteration == 7;
}

TEST(a_change_is_profiled_once_and_the_new_plan_starts_after_it)
{
    table_source *table = moving_load();
    bal_training training =
        training_with(table, "partition", (bal_policy){.kind = BAL_POLICY_ON_CHANGE});
    training.decision_ns = 7;
    training.sink.wants_timeline = wants_seven;

    const bal_training_result result = replay_in(&training);

    assert_int_equal(all.count, 10);
    for (int iteration = 0; iteration < 10; iteration++) {
        assert_int_equal(all.iterations[iteration].timeline != NULL, iteration == 7);
        assert_int_equal(all.iterations[iteration].rebalanced, iteration == 5);
        // Before: 4 and 4 layers. After: layers 0..5 (2004 ns) and 6..7 (2000 ns).
        assert_int_equal(all.first_layer[iteration][1], iteration <= 5 ? 4 : 6);
    }
    // GPipe with F only, 2 stages of 4000 ns, 4 microbatches, messages of latency 10 ns:
    // the last stage ends at 4000 + 10 + 4 * 4000; its backwards take no time, stage 0 gets the
    // last of them 10 ns later.
    assert_int_equal(all.iterations[0].metrics.makespan_ns, 20020);
    assert_int_equal(all.iterations[0].iteration_ns, 20020);
    assert_int_equal(all.iterations[5].metrics.makespan_ns, 4 + 10 + 4 * 4000 + 10);
    // Two layers of 1000 bytes leave rank 1: it pays 2 x (10 + 1000) ns or more, and the decision.
    assert_true(all.iterations[5].iteration_ns >= all.iterations[5].metrics.makespan_ns + 7 + 2000);
    assert_int_equal(all.iterations[6].iteration_ns, all.iterations[6].metrics.makespan_ns);
    assert_true(all.iterations[6].metrics.makespan_ns < all.iterations[5].metrics.makespan_ns);
    assert_int_equal(result.rebalance_count, 1);
    assert_int_equal(result.change_count, 1);
    assert_int_equal(result.moved_layer_count, 2);
    assert_int_equal(result.moved_bytes, 2000);
    assert_int_equal(result.decision_ns, 7);
    assert_int_equal(result.simulated_count, 3); // before, after, after under the new plan
}

TEST(without_policy_the_plan_of_the_start_stays)
{
    table_source *table = moving_load();
    const bal_training training = training_with(table, "tuned", (bal_policy){0});

    const bal_training_result result = replay_in(&training);

    assert_int_equal(result.rebalance_count, 0);
    assert_int_equal(result.decision_count, 0);
    assert_memory_equal(result.start_first_layer, result.final_first_layer, 3 * sizeof(int));
    assert_close(result.first.imbalance_ratio, 1.0, 1e-12);
    assert_close(result.last.imbalance_ratio, 4000.0 / ((4000.0 + 4.0) / 2), 1e-12);
}

TEST(peaks_follow_the_bytes_of_the_layers_and_the_plan)
{
    table_source *table = moving_load();
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int iteration = 0; iteration < ITERATIONS; iteration++) {
            table->activation_bytes[iteration][layer] = iteration < CHANGE_AT ? 10 : 30;
        }
    }
    bal_training training = training_with(table, "tuned", (bal_policy){0});

    // GPipe holds the activations of all 4 microbatches. 4 layers on each rank throughout.
    training.iteration_count = 5;
    bal_training_result result = replay_in(&training);
    assert_int_equal(result.peak_memory_bytes[0], 4 * 1000 + 4 * 4 * 10);
    training.iteration_count = 10;
    result = replay_in(&training);
    assert_int_equal(result.peak_memory_bytes[0], 4 * 1000 + 4 * 4 * 30);

    // 6 layers on rank 0 from iteration 6 on, with bytes that have not changed since iteration 5.
    training.balancer = bal_balancer_find("partition");
    training.policy = (bal_policy){.kind = BAL_POLICY_ON_CHANGE};
    result = replay_in(&training);
    assert_int_equal(result.peak_memory_bytes[0], 6 * 1000 + 4 * 6 * 30);
    assert_int_equal(result.peak_memory_bytes[1], 4 * 1000 + 4 * 4 * 30);
}

static void assert_refused(const bal_training *training, status code, const char *message)
{
    bal_training_result result = {.total_ns = -7};
    assert_fails(sim_training_replay(training, NULL, memory, &result, &why), code, message);
    assert_int_equal(result.total_ns, -7);
}

TEST(what_cannot_be_played_is_refused)
{
    table_source *table = moving_load();
    const bal_training good = training_with(table, "even", (bal_policy){0});
    bal_training bad = good;
    bad.schedule = "zb-h7";
    assert_refused(&bad, STATUS_INVALID, "unknown schedule 'zb-h7'");
    bad = good;
    bad.balancer = bal_balancer_find("partition");
    bad.machine.rank_memory_bytes = 3999; // 8000 bytes of state on two ranks
    assert_refused(&bad, STATUS_INFEASIBLE,
                   "no plan of 2 stages keeps every stage within its memory cap and non-empty: "
                   "together they hold at most the first 6 of 8 layers");
    bad = good;
    bad.schedule = "zb-h1";
    table->has_full_backwards = true;
    assert_refused(&bad, STATUS_INVALID,
                   "schedule zb-h1 needs the backward split into B and W, and the costs hold only "
                   "full backwards; import them with --backward-split or choose gpipe, 1f1b or "
                   "interleaved-1f1b");
    replay_in(&good);
}

TEST(sums_that_do_not_fit_are_refused)
{
    table_source *table = moving_load();
    const bal_training training = training_with(table, "even", (bal_policy){0});

    table->state_bytes[0] = INT64_MAX / 4;
    assert_refused(&training, STATUS_INVALID,
                   "iteration 0: the state_bytes of all layers do not fit 64 bits");
    table->state_bytes[0] = 0;
    // Of 8 layers and 4 microbatches: one play fits.
    table_fill(table, 0, ITERATIONS, INT64_MAX / 4 / (LAYERS * 4 + 1), 0, 0);
    assert_refused(&training, STATUS_INVALID,
                   "iteration 3: the sums over the run do not fit 64 bits");
}

TEST(owners_without_stages_are_followed_in_loads_only)
{
    table_source *table = moving_load();
    bal_training training =
        training_with(table, "diffusion-published", (bal_policy){.kind = BAL_POLICY_ON_CHANGE});
    training.sink.put = NULL;

    const bal_training_result result = replay_in(&training);

    assert_false(result.executable);
    assert_null(result.final_first_layer);
    assert_int_equal(result.total_ns, 0);
    assert_close(result.first.imbalance_ratio, 1.0, 1e-12);
    assert_true(result.last.imbalance_ratio < 1.1); // two of the heavy layers have moved
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
