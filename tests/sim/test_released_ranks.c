/// What released ranks become: idle GPUs and nodes, or further replicas and the time to make them.
#include "sim/training_plan.h"
#include "tests/assert_close.h"

/// Two replicas of 4 ranks of 2 GPUs, 4 GPUs per node.
static const bal_gpu_layout layout = {
    .rank_count = 4, .replica_count = 2, .gpus_per_rank = 2, .gpus_per_node = 4};

static sim_gpu_use use_of(bal_released_use use, const int *machine_rank, int rank_count,
                          int microbatch_count)
{
    const bal_placed_partition plan = {
        .rank_count = rank_count, .chunk_count = 1, .machine_rank = machine_rank};
    arena *scratch = arena_create(1 << 10);
    const sim_gpu_use made = sim_gpu_use_of(&layout, use, &plan, microbatch_count, scratch);
    arena_destroy(scratch);
    assert_int_equal(made.account.gpu_count, 16);
    return made;
}

static void released_ranks_are_idle(void **state)
{
    const int neighbours[] = {2, 3};
    const int apart[] = {0, 3};

    const sim_gpu_use nodes = use_of(BAL_RELEASED_RELEASE, neighbours, 2, 8);
    const sim_gpu_use halves = use_of(BAL_RELEASED_LEND, apart, 2, 8);

    assert_int_equal(nodes.account.idle_gpu_count, 8);
    assert_int_equal(nodes.account.released_rank_count, 4);
    assert_int_equal(nodes.account.released_node_count, 2);
    assert_int_equal(nodes.replica_count, 2);
    assert_int_equal(nodes.played_count, 8);
    assert_int_equal(halves.account.idle_gpu_count, 8);
    assert_int_equal(halves.account.released_node_count, 0);
}

static void replicas_share_the_global_batch(void **state)
{
    const int ranks[] = {0, 1, 2};

    const sim_gpu_use two = use_of(BAL_RELEASED_REPLICATE, ranks, 2, 7); // 8 ranks, 14 microbatches
    const sim_gpu_use three = use_of(BAL_RELEASED_REPLICATE, ranks, 3, 7); // 2 ranks are left over
    const sim_gpu_use one = use_of(BAL_RELEASED_REPLICATE, ranks, 1, 7);
    const sim_gpu_use few = use_of(BAL_RELEASED_REPLICATE, ranks, 1, 3); // 6 microbatches

    assert_int_equal(two.replica_count, 4);
    assert_int_equal(two.played_count, 4); // 4, 4, 3, 3
    assert_int_equal(two.account.idle_gpu_count, 0);
    assert_int_equal(three.replica_count, 2);
    assert_int_equal(three.played_count, 7);
    assert_int_equal(three.account.idle_gpu_count, 4);
    assert_int_equal(three.account.released_rank_count, 2);
    assert_int_equal(one.replica_count, 8);
    assert_int_equal(one.played_count, 2);
    assert_int_equal(few.replica_count, 6);
    assert_int_equal(few.played_count, 1);
    assert_int_equal(few.account.released_rank_count, 2);
}

static void a_replica_is_made_place_by_place(void **state)
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

static void a_replica_that_is_too_large_saturates(void **state)
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(released_ranks_are_idle),
        cmocka_unit_test(replicas_share_the_global_batch),
        cmocka_unit_test(a_replica_is_made_place_by_place),
        cmocka_unit_test(a_replica_that_is_too_large_saturates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
