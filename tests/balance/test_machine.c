/// collective: formulas worked out by hand, links told apart, sums that saturate, and properties
/// over random groups.
#include "balance/costs/machine.h"

#include "base/rng.h"
#include "tests/assert_close.h"

static const bal_link fast = {.latency_ns = 10, .bytes_per_s = 1000000000}; // 1 byte per ns
static const bal_link slow = {.latency_ns = 100, .bytes_per_s = 100000000}; // 1 byte per 10 ns

static bal_group group_of(int ranks, int on_node)
{
    return (bal_group){ranks, on_node, fast, slow};
}

static void rings_take_a_step_of_an_nth_per_other_rank(void **state)
{
    const bal_group node = group_of(4, 4);
    // 3 steps of 250 bytes and 10 ns of latency.
    assert_int_equal(bal_group_all_gather_ns(&node, 1000), 780);
    assert_int_equal(bal_group_reduce_scatter_ns(&node, 1000), 780);
    assert_int_equal(bal_group_all_reduce_ns(&node, 1000), 1560);
    assert_int_equal(bal_group_all_to_all_ns(&node, 1000), 780);
    // Parts are rounded up: 251 bytes.
    assert_int_equal(bal_group_all_gather_ns(&node, 1001), 783);
    // Nothing still pays the latency of the steps.
    assert_int_equal(bal_group_all_reduce_ns(&node, 0), 60);
}

static void one_rank_has_nobody_to_talk_to(void **state)
{
    const bal_group alone = group_of(1, 1);

    assert_int_equal(bal_group_all_reduce_ns(&alone, 1000), 0);
    assert_int_equal(bal_group_all_to_all_ns(&alone, 1000), 0);
    assert_int_equal(bal_group_ring_step_ns(&alone, 1000), 0);
}

static void a_group_on_one_node_uses_its_links_only(void **state)
{
    const bal_group node = group_of(4, 4);

    assert_int_equal(bal_group_all_gather_ns(&node, 1000), 780);
    assert_int_equal(bal_group_all_to_all_ns(&node, 1000), 780);
    assert_int_equal(bal_group_ring_step_ns(&node, 1000), 1010);
}

static void a_group_with_a_rank_per_node_is_a_ring_between_nodes(void **state)
{
    const bal_group apart = group_of(4, 1);

    assert_int_equal(bal_group_all_reduce_ns(&apart, 1000), 2 * 3 * (100 + 2500));
    assert_int_equal(bal_group_all_to_all_ns(&apart, 1000), 3 * (100 + 2500));
    assert_int_equal(bal_group_ring_step_ns(&apart, 1000), 10100);
}

static void a_group_over_nodes_works_level_by_level(void **state)
{
    const bal_group both = group_of(8, 4); // two nodes

    // Between nodes 1 step of half of 2000 / 4 bytes: 100 + 2500. On the node 3 steps of 500: 1530.
    assert_int_equal(bal_group_all_gather_ns(&both, 2000), 2600 + 1530);
    assert_int_equal(bal_group_reduce_scatter_ns(&both, 2000), 2600 + 1530);
    assert_int_equal(bal_group_all_reduce_ns(&both, 2000), 2 * (2600 + 1530));
    // 3 steps of 250 bytes on the node, 4 to the other one.
    assert_int_equal(bal_group_all_to_all_ns(&both, 2000), 3 * 260 + 4 * 2600);
    assert_int_equal(bal_group_ring_step_ns(&both, 2000), 20100);
}

static void a_last_node_with_fewer_ranks_counts_as_a_node(void **state)
{
    const bal_group uneven = group_of(6, 4);

    assert_int_equal(bal_group_all_gather_ns(&uneven, 2000), 2600 + 1530);
}

static void what_does_not_fit_saturates(void **state)
{
    const bal_link snail = {.latency_ns = INT64_MAX / 4, .bytes_per_s = 1};
    const bal_group wide = {1 << 20, 1 << 10, snail, snail};

    assert_int_equal(bal_group_all_gather_ns(&wide, INT64_MAX), INT64_MAX / 4);
    assert_int_equal(bal_group_all_reduce_ns(&wide, INT64_MAX), INT64_MAX / 4);
    assert_int_equal(bal_group_all_to_all_ns(&wide, INT64_MAX), INT64_MAX / 4);
    assert_int_equal(bal_group_ring_step_ns(&wide, INT64_MAX), INT64_MAX / 4);
}

static void gradients_are_reduced_layer_by_layer(void **state)
{
    const int64_t parameters[] = {0, 1000, INT64_MAX / 2};
    const bal_group replicas = group_of(4, 1);
    int64_t reduction_ns[3];

    bal_gradient_reductions_ns(parameters, 3, 4, &replicas, reduction_ns);

    assert_int_equal(reduction_ns[0], 6 * 100);
    assert_int_equal(reduction_ns[1], 6 * (100 + 10000));
    assert_int_equal(reduction_ns[2], bal_group_all_reduce_ns(&replicas, INT64_MAX));
}

static void more_bytes_and_slower_links_never_take_less_time(void **state)
{
    rng random = rng_init(5, 0);
    for (int round = 0; round < 1000; round++) {
        const int ranks = (int)rng_between(&random, 1, 600);
        const int on_node = (int)rng_between(&random, 1, ranks < 8 ? ranks : 8);
        const int64_t bytes = rng_between(&random, 0, INT64_C(1) << 40);
        const bal_group group = group_of(ranks, on_node);
        bal_group slower = group;
        slower.intra_node = slow;

        const int64_t reduce_ns = bal_group_all_reduce_ns(&group, bytes);
        const int64_t exchange_ns = bal_group_all_to_all_ns(&group, bytes);
        assert_true(bal_group_all_reduce_ns(&group, bytes + 1) >= reduce_ns);
        assert_true(bal_group_all_to_all_ns(&group, bytes + 1) >= exchange_ns);
        assert_true(bal_group_all_reduce_ns(&slower, bytes) >= reduce_ns);
        assert_true(bal_group_all_to_all_ns(&slower, bytes) >= exchange_ns);
        // No group sends less than its own share over its fastest link.
        assert_true(exchange_ns >= bytes / ranks * (ranks - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rings_take_a_step_of_an_nth_per_other_rank),
        cmocka_unit_test(one_rank_has_nobody_to_talk_to),
        cmocka_unit_test(a_group_on_one_node_uses_its_links_only),
        cmocka_unit_test(a_group_with_a_rank_per_node_is_a_ring_between_nodes),
        cmocka_unit_test(a_group_over_nodes_works_level_by_level),
        cmocka_unit_test(a_last_node_with_fewer_ranks_counts_as_a_node),
        cmocka_unit_test(what_does_not_fit_saturates),
        cmocka_unit_test(gradients_are_reduced_layer_by_layer),
        cmocka_unit_test(more_bytes_and_slower_links_never_take_less_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
