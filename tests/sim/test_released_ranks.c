/// What released ranks become: idle GPUs and nodes, or further replicas and the time to make them.
#include "sim/training_plan.h"
#include "tests/test_memory.h"

/// Two replicas of 4 ranks of 2 GPUs, 4 GPUs per node.
static const bal_gpu_layout layout = {
    .rank_count = 4, .replica_count = 2, .gpus_per_rank = 2, .gpus_per_node = 4};

TEST(released_ranks_are_idle_or_make_replicas)
{
    static const struct {
        bal_released_use use;
        int ranks[3], rank_count, microbatches;
        int idle_gpus, released_ranks, released_nodes, replicas, played;
    } cases[] = {
        {BAL_RELEASED_RELEASE, {2, 3}, 2, 8, 8, 4, 2, 2, 8},
        {BAL_RELEASED_LEND, {0, 3}, 2, 8, 8, 4, 0, 2, 8}, // apart: no whole node
        // Replicas share the global batch: 14 microbatches of 8 ranks as 4, 4, 3, 3.
        {BAL_RELEASED_REPLICATE, {0, 1}, 2, 7, 0, 0, 0, 4, 4},
        {BAL_RELEASED_REPLICATE, {0, 1, 2}, 3, 7, 4, 2, 0, 2, 7}, // 2 ranks are left over
        {BAL_RELEASED_REPLICATE, {0}, 1, 7, 0, 0, 0, 8, 2},
        {BAL_RELEASED_REPLICATE, {0}, 1, 3, 4, 2, 0, 6, 1}, // 6 microbatches
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        const bal_placed_partition plan = {.rank_count = cases[each].rank_count,
                                           .chunk_count = 1,
                                           .machine_rank = cases[each].ranks};
        const sim_gpu_use made =
            sim_gpu_use_of(&layout, cases[each].use, &plan, cases[each].microbatches, memory);
        assert_int_equal(made.account.gpu_count, 16);
        assert_int_equal(made.account.idle_gpu_count, cases[each].idle_gpus);
        assert_int_equal(made.account.released_rank_count, cases[each].released_ranks);
        assert_int_equal(made.account.released_node_count, cases[each].released_nodes);
        assert_int_equal(made.replica_count, cases[each].replicas);
        assert_int_equal(made.played_count, cases[each].played);
    }
}

TEST(a_replica_is_made_place_by_place)
{
    const int first_layer[] = {0, 1, 4};
    const int64_t state_bytes[] = {100, 50, 60, 70};
    const bal_machine machine = {.rank_count = 2,
                                 .ranks_per_node = 2,
                                 .inter_node = {.latency_ns = 10, .bytes_per_s = 1000000000}};
    const bal_placed_partition plan = {
        .first_layer = first_layer, .rank_count = 2, .chunk_count = 1};
    const bal_layer_costs layers = {.layer_count = 4, .state_bytes = state_bytes};
    const bal_layer_costs bare = {.layer_count = 4};

    // The second place sends 50, 60 and 70 bytes, each with its latency.
    assert_int_equal(sim_replication_ns(&machine, &layers, &plan, 2, 0), 0);
    assert_int_equal(sim_replication_ns(&machine, &layers, &plan, 2, 1), 210);
    assert_int_equal(sim_replication_ns(&machine, &layers, &plan, 2, 2), 210);
    assert_int_equal(sim_replication_ns(&machine, &layers, &plan, 2, 3), 420);
    assert_int_equal(sim_replication_ns(&machine, &bare, &plan, 1, 1), 30);
}

TEST(a_replica_that_is_too_large_saturates)
{
    const int first_layer[] = {0, 2};
    const int64_t state_bytes[] = {INT64_MAX / 8, INT64_MAX / 8};
    const bal_machine machine = {
        .rank_count = 1, .ranks_per_node = 1, .inter_node = {.bytes_per_s = 1000}};
    const bal_placed_partition plan = {
        .first_layer = first_layer, .rank_count = 1, .chunk_count = 1};
    const bal_layer_costs layers = {.layer_count = 2, .state_bytes = state_bytes};

    assert_int_equal(sim_replication_ns(&machine, &layers, &plan, 1, 7), INT64_MAX / 4);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
