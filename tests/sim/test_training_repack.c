/// The replay of pipelines that release ranks and take them back, and of migration that hides
/// after the backward sweep. Messages cost nothing, state moves at 1 byte per ns, and layers are F
/// alone: under GPipe an iteration lasts the sum of the loads and M - 1 times the largest of them.
#include "tests/sim/kept_run.h"
#include "tests/test_memory.h"

enum { LAYERS = 8, RANKS = 4, MICROBATCHES = 4, ITERATIONS = 8 };

static bal_training pipeline(const table_source *table, int ranks)
{
    const bal_link byte_per_ns = {.bytes_per_s = 1000000000};
    bal_training training = kept_training(table, 1, ranks, ITERATIONS, MICROBATCHES);
    training.machine = (bal_machine){.rank_count = ranks,
                                     .ranks_per_node = 2,
                                     .intra_node = byte_per_ns,
                                     .inter_node = byte_per_ns};
    training.balancer = bal_balancer_find("partition");
    training.policy.kind = BAL_POLICY_ON_CHANGE;
    return training;
}

/// Eight layers of 100 ns and 1000 bytes of state. In iterations 2 to 4 they take 400, four times
/// 100, and nothing: two ranks then do as well as four.
static table_source *lighter_for_a_while(void)
{
    table_source *table = tables(1, LAYERS, 1);
    table_fill(table, 0, ITERATIONS, 100, 0, 0);
    for (int iteration = 2; iteration < 5; iteration++) {
        table->forward[iteration][0] = 400;
        for (int layer = 5; layer < LAYERS; layer++) {
            table->forward[iteration][layer] = 0;
        }
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        table->state_bytes[layer] = 1000;
    }
    return table;
}

static bal_training repacked(const table_source *table)
{
    bal_training training = pipeline(table, RANKS);
    training.repack.kind = BAL_REPACK_THROUGHPUT;
    training.repack.tolerance_ratio = 0;
    training.repack.rank_unit = 2; // whole nodes
    return training;
}

TEST(ranks_are_released_and_taken_back)
{
    table_source *table = lighter_for_a_while();
    bal_training training = repacked(table);
    training.data_parallel = 2;
    training.gpus_per_rank = 2;

    const bal_training_result result = replay_in(&training);

    const struct {
        int rank_count;
        int64_t pipeline_ns;
        int64_t migration_ns;
        bal_action action;
        bal_reason reason;
    } expected[ITERATIONS] = {
        {4, 800 + 3 * 200, 0, BAL_ACTION_KEEP, BAL_REASON_NONE},
        {4, 800 + 3 * 200, 0, BAL_ACTION_KEEP, BAL_REASON_NONE},
        // Layers 0 and 1 take 500. Rank 1 then gets layers 1, 4, 5, 6 and 7.
        {4, 800 + 3 * 500, 5000, BAL_ACTION_REPACK, BAL_REASON_SHRINK},
        {2, 800 + 3 * 400, 0, BAL_ACTION_KEEP, BAL_REASON_NONE},
        {2, 800 + 3 * 400, 0, BAL_ACTION_KEEP, BAL_REASON_NONE},
        // Load has returned: 100 and 700. Rank 1 gives the same layers back.
        {2, 800 + 3 * 700, 5000, BAL_ACTION_REPACK, BAL_REASON_GROW},
        {4, 800 + 3 * 200, 0, BAL_ACTION_KEEP, BAL_REASON_NONE},
        {4, 800 + 3 * 200, 0, BAL_ACTION_KEEP, BAL_REASON_NONE},
    };
    int64_t total_ns = 0;
    int64_t packed_ns = 0;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        const bal_training_iteration *one = &all.iterations[iteration];
        const bool is_packed = expected[iteration].rank_count == 2;
        assert_int_equal(one->rank_count, expected[iteration].rank_count);
        assert_int_equal(one->pipeline_ns, expected[iteration].pipeline_ns);
        assert_int_equal(one->migration_ns, expected[iteration].migration_ns);
        assert_int_equal(one->action, expected[iteration].action);
        assert_int_equal(one->reason, expected[iteration].reason);
        assert_int_equal(one->replica_count, 2);
        assert_int_equal(one->microbatch_count, MICROBATCHES);
        // Two replicas of four ranks of two GPUs, four GPUs per node: a node of each is released.
        assert_int_equal(one->gpus.gpu_count, 16);
        assert_int_equal(one->gpus.idle_gpu_count, is_packed ? 8 : 0);
        assert_int_equal(one->gpus.released_rank_count, is_packed ? 4 : 0);
        assert_int_equal(one->gpus.released_node_count, is_packed ? 2 : 0);
        for (int place = 0; place < one->rank_count; place++) {
            assert_int_equal(all.machine_rank[iteration][place], place);
            assert_int_equal(all.first_layer[iteration][place], is_packed ? place : 2 * place);
        }
        total_ns += one->iteration_ns;
        if (is_packed) packed_ns += one->iteration_ns;
    }
    assert_int_equal(packed_ns, 2 * 2000 + 2900 + 5000);
    assert_int_equal(result.total_ns, total_ns);
    assert_int_equal(result.gpu_count, 16);
    assert_int_equal(result.gpu_ns, 16 * total_ns);
    assert_int_equal(result.idle_gpu_ns, 8 * packed_ns);
    assert_int_equal(result.released_rank_ns, 4 * packed_ns);
    assert_int_equal(result.released_node_ns, 2 * packed_ns);
    assert_close(result.rank_count_mean, 4 - 2 * (double)packed_ns / (double)total_ns, 1e-12);
    assert_int_equal(result.repack_count, 2);
    assert_int_equal(result.final_rank_count, 4);
    assert_int_equal(result.final_machine_rank[3], 3);
    assert_int_equal(result.moved_bytes, 10000);
}

TEST(a_run_that_ends_packed_says_so)
{
    table_source *table = lighter_for_a_while();
    bal_training training = repacked(table);
    training.iteration_count = 5;

    const bal_training_result result = replay_in(&training);

    const int expected[] = {0, 1, LAYERS};
    assert_int_equal(result.final_rank_count, 2);
    assert_memory_equal(result.final_first_layer, expected, sizeof expected);
    assert_int_equal(result.start_first_layer[RANKS], LAYERS);
    assert_int_equal(result.peak_memory_bytes[0], 2000);
    assert_int_equal(result.peak_memory_bytes[1], 7000);
    assert_int_equal(result.peak_memory_bytes[3], 2000);
}

TEST(released_ranks_make_further_replicas)
{
    table_source *table = lighter_for_a_while();
    bal_training training = repacked(table);
    training.repack.use = BAL_RELEASED_REPLICATE;

    const bal_training_result result = replay_in(&training);

    // Behind iteration 2 five layers move as before, and the second replica is given its 8: the
    // seven of its second stage take longest.
    assert_int_equal(all.iterations[2].migration_ns, 5000 + 7000);
    assert_int_equal(all.iterations[2].moved_bytes, 5000 + 8000);
    for (int iteration = 3; iteration < 5; iteration++) {
        const bal_training_iteration *one = &all.iterations[iteration];
        assert_int_equal(one->replica_count, 2);
        assert_int_equal(one->microbatch_count, 2); // the four are shared
        assert_int_equal(one->pipeline_ns, 800 + 400);
        assert_int_equal(one->gpus.idle_gpu_count, 0);
    }
    assert_int_equal(all.iterations[5].pipeline_ns, 800 + 700);
    assert_int_equal(all.iterations[5].migration_ns, 5000); // nothing is copied on the way back
    assert_int_equal(all.iterations[6].replica_count, 1);
    assert_int_equal(all.iterations[6].pipeline_ns, 1400);
    assert_int_equal(result.idle_gpu_ns, 0);
    assert_close(
        result.bubble_ratio, // 3200 busy in every iteration; two replicas on all four ranks
        1.0 - 8 * 3200 / (4.0 * (4 * 1400 + 2300 + 2 * 1200 + 1500)), 1e-12);
}

/// Two replicas become four: each sends three quarters of the bytes twice, instead of half of them.
TEST(further_replicas_reduce_gradients_for_longer)
{
    table_source *table = lighter_for_a_while();
    bal_training training = repacked(table);
    training.repack.use = BAL_RELEASED_REPLICATE;
    training.data_parallel = 2;
    training.iteration_count = 5;
    for (int layer = 0; layer < LAYERS; layer++) {
        table->reduction_ns[layer] = 8;
    }

    replay_in(&training);

    assert_int_equal(all.iterations[2].replica_count, 2);
    assert_int_equal(all.iterations[2].reduction_ns, 2 * 8);
    assert_int_equal(all.iterations[3].replica_count, 4);
    assert_int_equal(all.iterations[3].pipeline_ns, 800 + 400);
    assert_int_equal(all.iterations[3].reduction_ns, 7 * 12);
}

/// Layer 0 is W alone, on rank 0. From iteration 1 on layer 3 belongs on rank 1 instead of rank 2;
/// both have ended at 400, rank 0 goes on until 600.
static int64_t migration_ns(int64_t state_bytes, bool overlaps)
{
    table_source *table = tables(1, 5, 1);
    table_fill(table, 0, 3, 100, 0, 0);
    const int64_t later_ns[] = {0, 50, 50, 100, 200};
    for (int iteration = 0; iteration < 3; iteration++) {
        if (iteration > 0) memcpy(table->forward[iteration], later_ns, sizeof later_ns);
        table->forward[iteration][0] = 0;
        table->weight[iteration][0] = 200;
    }
    table->state_bytes[3] = state_bytes;
    bal_training training = pipeline(table, 3);
    training.iteration_count = 3;
    training.microbatch_count = 1;
    training.migration.overlaps = overlaps;

    const bal_training_result result = replay_in(&training);

    assert_int_equal(all.first_layer[1][2], 3);
    assert_int_equal(all.first_layer[2][2], 4);
    assert_int_equal(all.iterations[1].pipeline_ns, 600);
    assert_int_equal(all.iterations[1].iteration_ns, 600 + result.migration_ns);
    assert_int_equal(all.iterations[1].moved_bytes, state_bytes);
    return result.migration_ns;
}

TEST(migration_hides_behind_ranks_that_go_on)
{
    assert_int_equal(migration_ns(150, false), 150);
    assert_int_equal(migration_ns(150, true), 0);
    assert_int_equal(migration_ns(250, false), 250);
    assert_int_equal(migration_ns(250, true), 50);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
