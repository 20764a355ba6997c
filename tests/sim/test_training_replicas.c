/// The replay of several replicas: the slowest makes the iteration, gradients are reduced between
/// them, and ranks may be slow. Links cost nothing, so that times can be added by hand.
#include "tests/sim/kept_run.h"

/// Two ranks under GPipe, or another schedule that the test names.
static bal_training two_ranks(const table_source *table, int replica_count, int iterations,
                              int microbatches)
{
    return kept_training(table, replica_count, 2, iterations, microbatches);
}

TEST(the_slowest_replica_makes_the_iteration)
{
    table_source *table = tables(2, 2, 1);
    table_fill(&table[0], 0, 1, 100, 0, 0);
    table_fill(&table[1], 0, 1, 100, 0, 0);
    table[1].forward[0][1] = 300;
    const bal_training training = two_ranks(table, 2, 1, 2);

    const bal_training_result result = replay(&training);

    // Replica 0: stages of 100 and 100, 300 ns. Replica 1: 100 + 2 * 300.
    assert_int_equal(all.iterations[0].iteration_ns, 700);
    assert_int_equal(all.iterations[0].metrics.makespan_ns, 700);
    assert_int_equal(all.work_ns[0][0], 200);
    assert_int_equal(all.work_ns[0][1], 600);
    assert_int_equal(result.total_ns, 700);
    // Busy: 400 and 800 of four ranks that are held for 700.
    assert_close(result.bubble_ratio, 1.0 - 1200.0 / (4 * 700), 1e-12);
    assert_close(result.first.bubble_ratio, 1.0 - 800.0 / (2 * 700), 1e-12);
}

/// Stages of 100 ns of F, the second of which takes 300 in replica 1 and is reduced for 1000.
static bal_training reducing_replicas(table_source *table, int microbatches)
{
    for (int replica = 0; replica < 2; replica++) {
        table_fill(&table[replica], 0, 1, 100, 0, 0);
        table[replica].reduction_ns[1] = 1000;
    }
    table[1].forward[0][1] = 300;
    bal_training training = two_ranks(table, 2, 1, microbatches);
    training.reduction_overlap = BAL_REDUCTION_STAGE;
    return training;
}

TEST(a_reduction_waits_for_the_last_replica)
{
    table_source *table = tables(2, 2, 1);
    const bal_training training = reducing_replicas(table, 1);
    table[0].weight[0][0] = 1000;

    const bal_training_result result = replay(&training);

    // Replica 0 is the slowest: rank 1 ends at 200, rank 0 at 1200. In replica 1 rank 1 ends at
    // 400.
    assert_int_equal(result.pipeline_ns, 1200);
    assert_int_equal(result.total_ns, 400 + 1000);
}

TEST(with_post_validation_the_first_begin_in_any_replica_counts)
{
    table_source *table = tables(2, 2, 1);
    bal_training training = reducing_replicas(table, 2);
    training.post_validation = true;
    table[0].forward[0][0] = 50;

    const bal_training_result result = replay(&training);

    // Rank 0 waits for the backwards of rank 1, from 0 to 700. Rank 1 begins at 50 in replica 0,
    // ends at 700 in replica 1 and has reduced at 1700.
    assert_int_equal(result.pipeline_ns, 700);
    assert_int_equal(result.total_ns, 1700 - 50);
}

TEST(the_plan_is_made_for_the_largest_load_over_the_replicas)
{
    table_source *table = tables(2, 4, 2);
    for (int replica = 0; replica < 2; replica++) {
        table_fill(&table[replica], 0, 1, 100, 0, 0);
        table_fill(&table[replica], 1, 4, 100, 0, 0);
    }
    // From iteration 1 on, in one replica each: layers 0 and 1 of 500 on average. The largest over
    // the replicas are 500, 500, 100, 100; the means over them were 300, 300, 100, 100.
    for (int iteration = 1; iteration < 4; iteration++) {
        table[0].forward[iteration][0] = 400;
        table[0].forward[iteration][1] = 600;
        table[1].forward[iteration][2] = 500;
        table[1].forward[iteration][3] = 500;
    }
    bal_training training = two_ranks(table, 2, 4, 2);
    training.balancer = bal_balancer_find("partition");
    training.policy = (bal_policy){.kind = BAL_POLICY_ON_CHANGE};

    const bal_training_result result = replay(&training);

    assert_int_equal(result.change_count, 1);
    assert_int_equal(result.rebalance_count, 1);
    assert_int_equal(all.first_layer[1][1], 2);
    assert_int_equal(all.first_layer[2][1], 1); // 500 and 700, not 1000 and 200
    assert_int_equal(result.bottleneck_ns, 700);
    assert_int_equal(result.simulated_count, 3);
}

/// Of layers of 10 ns of F and 20 of BW, in two stages or chunks, which reduce for 5, 7, late_ns
/// and 30 ns between two replicas.
static int64_t reduced(bal_training training, table_source *table, int64_t late_ns)
{
    table_fill(table, 0, 1, 10, 10, 10);
    memcpy(table->reduction_ns, (const int64_t[]){5, 7, late_ns, 30}, 4 * sizeof(int64_t));
    training.data_parallel = 2;

    const bal_training_result result = replay(&training);

    // Of the one-rank run, and of rank 0 of the other, whose span it is too.
    assert_int_equal(result.pipeline_ns, training.chunk_count > 0 ? 120 : 180);
    assert_int_equal(result.pipeline_ns + result.reduction_ns, result.total_ns);
    return result.reduction_ns;
}

/// Under 1F1B with 2 microbatches:
///   rank 0:  F0 0-20   F1 20-40  BW0 80-120   BW1 140-180
///   rank 1:  F0 20-40  BW0 40-80  F1 80-100   BW1 100-140
TEST(reductions_hide_behind_what_the_overlap_names)
{
    static const struct {
        bal_reduction_overlap overlap;
        int64_t with_barrier_ns;
        int64_t without_ns; // rank 1 then begins at 20
    } cases[] = {
        {BAL_REDUCTION_EXPOSED, 130, 130}, // behind everything, of rank 1
        // Rank 1 from 140 to 270, rank 0 from 180 to 192.
        {BAL_REDUCTION_STAGE, 270 - 180, 250 - 180},
        // Rank 1: layer 3 is ready at 120 and reduced at 150, layer 2 then at 250.
        {BAL_REDUCTION_BACKWARD, 250 - 180, 230 - 180},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        table_source *table = tables(1, 4, 1);
        bal_training training = two_ranks(table, 1, 1, 2);
        training.schedule = "1f1b";
        training.reduction_overlap = cases[each].overlap;
        assert_int_equal(reduced(training, table, 100), cases[each].with_barrier_ns);
        training.post_validation = true;
        assert_int_equal(reduced(training, table, 100), cases[each].without_ns);
    }
}

/// Rank 1 takes twice as long: BW1 180-260, of its layers 40 ns each; rank 0 has BW1 260-300.
TEST(gradients_of_a_slow_rank_are_ready_when_it_has_made_them)
{
    const bal_slow_rank slow = {.rank = 1, .time_factor = 2, .end_iteration = 1};
    table_source *table = tables(1, 4, 1);
    bal_training training = two_ranks(table, 1, 1, 2);
    table_fill(table, 0, 1, 10, 10, 10);
    memcpy(table->reduction_ns, (const int64_t[]){5, 7, 100, 30}, 4 * sizeof(int64_t));
    training.schedule = "1f1b";
    training.data_parallel = 2;
    training.reduction_overlap = BAL_REDUCTION_BACKWARD;
    training.slow_ranks = &slow;
    training.slow_rank_count = 1;

    const bal_training_result result = replay(&training);

    // Layer 3 is ready at 220 and reduced at 250, layer 2 at 260 and 360.
    assert_int_equal(result.pipeline_ns, 300);
    assert_int_equal(result.reduction_ns, 360 - 300);
}

/// One rank and one microbatch: F0 0-20  F1 20-40  BW1 40-80  BW0 80-120
TEST(the_chunks_of_a_rank_share_its_link)
{
    static const int64_t expected_ns[] = {
        [BAL_REDUCTION_EXPOSED] = 92,
        // Chunk 1 from 80 to 160, chunk 0 after it.
        [BAL_REDUCTION_STAGE] = 160 + 12 - 120,
        // Layer 3 from 60, layer 2 from 90 to 140, layer 1 until 147, layer 0 until 152.
        [BAL_REDUCTION_BACKWARD] = 152 - 120,
    };
    for (int overlap = 0; overlap < 3; overlap++) {
        table_source *table = tables(1, 4, 1);
        bal_training training = two_ranks(table, 1, 1, 1);
        training.machine.rank_count = 1;
        training.schedule = "interleaved-1f1b";
        training.chunk_count = 2;
        training.reduction_overlap = (bal_reduction_overlap)overlap;
        assert_int_equal(reduced(training, table, 50), expected_ns[overlap]);
    }
}

TEST(a_slow_rank_takes_longer_while_it_is_slow)
{
    table_source *table = tables(1, 2, 1);
    table_fill(table, 0, 6, 100, 0, 0);
    const bal_slow_rank slow[] = {
        {.rank = 1, .time_factor = 2, .first_iteration = 2, .end_iteration = 5},
        {.rank = 1, .time_factor = 1.5, .first_iteration = 4, .end_iteration = 6}};
    bal_training training = two_ranks(table, 1, 6, 2);
    training.slow_ranks = slow;
    training.slow_rank_count = 2;

    const bal_training_result result = replay(&training);

    const int64_t expected_ns[] = {300, 300, 100 + 2 * 200, 500, 100 + 2 * 300, 100 + 2 * 150};
    for (int iteration = 0; iteration < 6; iteration++) {
        assert_int_equal(all.iterations[iteration].iteration_ns, expected_ns[iteration]);
    }
    assert_int_equal(result.simulated_count, 4);
    assert_int_equal(result.change_count, 0); // the model has not changed, a rank has
}

TEST(layers_are_measured_on_the_rank_that_holds_them)
{
    table_source *table = tables(1, 6, 1);
    table_fill(table, 0, 5, 100, 0, 0);
    const bal_slow_rank slow = {
        .rank = 1, .time_factor = 2, .first_iteration = 1, .end_iteration = 5};
    bal_training training = two_ranks(table, 1, 5, 2);
    training.slow_ranks = &slow;
    training.slow_rank_count = 1;
    training.balancer = bal_balancer_find("partition");
    training.policy = (bal_policy){.kind = BAL_POLICY_EVERY, .period = 1};

    const bal_training_result result = replay(&training);

    // Measured: 3 layers of 100 and 3 of 200. 4 and 2 of them are 500 and 400, in truth 400 and
    // 400.
    assert_int_equal(all.first_layer[1][1], 3);
    assert_int_equal(all.iterations[1].iteration_ns, 300 + 2 * 600);
    assert_int_equal(all.first_layer[2][1], 4);
    assert_int_equal(all.iterations[2].iteration_ns, 3 * 400);
    assert_int_equal(all.first_layer[4][1], 4);
    assert_int_equal(result.rebalance_count, 1);
}

TEST(microbatches_are_cycled_through)
{
    table_source *table = tables(1, 2, 2);
    table_fill(table, 0, 2, 100, 0, 0);
    table->forward[0][1] = table->forward[1][1] = 200; // layer 0, microbatches 1, 3
    const bal_training training = two_ranks(table, 1, 2, 4);

    const bal_training_result result = replay(&training);

    assert_int_equal(all.work_ns[0][0], 600);
    assert_int_equal(all.iterations[0].iteration_ns, 600 + 100);
    assert_int_equal(all.iterations[1].iteration_ns, 600 + 100);
    assert_int_equal(result.simulated_count, 1);
}

static void assert_refused(const bal_training *training, const char *message)
{
    bal_training_result result = {.total_ns = -7};
    assert_fails(sim_training_replay(training, NULL, memory, &result, &why), STATUS_INVALID,
                 message);
    assert_int_equal(result.total_ns, -7);
}

TEST(replicas_of_other_layers_are_refused)
{
    table_source *table = tables(2, 2, 1);
    table[1].layer_count = 1;
    bal_training bad = two_ranks(table, 2, 1, 2);
    bad.source_count = bad.data_parallel = 2;

    assert_refused(&bad, "a replica of 1 layers beside one of 2: one plan is for all");
}

TEST(costs_that_do_not_fit_are_refused)
{
    table_source *table = tables(2, 2, 2);
    const bal_training alone = two_ranks(table, 1, 1, 2);
    const bal_training both = two_ranks(table, 2, 1, 2);

    table[1].forward[0][2] = -1;
    assert_refused(&both, "iteration 0: the times of layer 1 are negative or do not fit 64 bits");
    table[1].forward[0][2] = INT64_MAX / 2;
    assert_refused(&both, "iteration 0: the times of layer 1 are negative or do not fit 64 bits");
    table[0].reduction_ns[0] = INT64_MAX / 4;
    table[0].reduction_ns[1] = 1;
    assert_refused(
        &alone, "iteration 0: the ns of the gradient reduction of all layers do not fit 64 bits");
    table[1].forward[0][2] = 0;
    table[0].reduction_ns[1] = 0;
    table[1].reduction_ns[1] = 1;
    assert_refused(&both, "the reduction of gradients takes too long");
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
