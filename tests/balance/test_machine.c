/// collective: formulas worked out by hand, links told apart, sums that saturate, and properties
/// over random groups.
#include "balance/costs/machine.h"

#include "base/rng.h"
#include "tests/test.h"

static const bal_link fast = {.latency_ns = 10, .bytes_per_s = 1000000000}; // 1 byte per ns
static const bal_link slow = {.latency_ns = 100, .bytes_per_s = 100000000}; // 1 byte per 10 ns

static bal_group group_of(int ranks, int on_node)
{
    return (bal_group){ranks, on_node, fast, slow};
}

TEST(collectives_take_what_their_steps_take_by_hand)
{
    static const struct {
        int ranks, on_node;
        int64_t bytes;
        int64_t gather_ns, all_to_all_ns, ring_step_ns;
    } cases[] = {
        {4, 4, 1000, 780, 780, 1010}, // 3 steps of 250 bytes and 10 ns of latency
        {4, 4, 1001, 783, 783, 1011}, // parts are rounded up: 251 bytes
        {4, 4, 0, 30, 30, 10},        // nothing still pays the latency of the steps
        {1, 1, 1000, 0, 0, 0},        // one rank has nobody to talk to
        {4, 1, 1000, 3 * (100 + 2500), 3 * (100 + 2500), 10100}, // a ring between nodes
        // Two nodes: between them 1 step of half of 2000 / 4 bytes, 100 + 2500, and 3 of 500 on the
        // node, 1530. To all: 3 steps of 250 bytes on the node, 4 to the other one.
        {8, 4, 2000, 2600 + 1530, 3 * 260 + 4 * 2600, 20100},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        const bal_group group = group_of(cases[each].ranks, cases[each].on_node);
        const int64_t bytes = cases[each].bytes;
        const int64_t gather_ns = cases[each].gather_ns;
        assert_int_equal(bal_group_all_gather_ns(&group, bytes), gather_ns);
        assert_int_equal(bal_group_reduce_scatter_ns(&group, bytes), gather_ns);
        assert_int_equal(bal_group_all_reduce_ns(&group, bytes), 2 * gather_ns);
        assert_int_equal(bal_group_all_to_all_ns(&group, bytes), cases[each].all_to_all_ns);
        assert_int_equal(bal_group_ring_step_ns(&group, bytes), cases[each].ring_step_ns);
    }
    const bal_group uneven = group_of(6, 4); // a last node with fewer ranks counts as a node
    assert_int_equal(bal_group_all_gather_ns(&uneven, 2000), 2600 + 1530);
}

TEST(what_does_not_fit_saturates)
{
    const bal_link snail = {.latency_ns = INT64_MAX / 4, .bytes_per_s = 1};
    const bal_group wide = {1 << 20, 1 << 10, snail, snail};

    assert_int_equal(bal_group_all_gather_ns(&wide, INT64_MAX), INT64_MAX / 4);
    assert_int_equal(bal_group_all_reduce_ns(&wide, INT64_MAX), INT64_MAX / 4);
    assert_int_equal(bal_group_all_to_all_ns(&wide, INT64_MAX), INT64_MAX / 4);
    assert_int_equal(bal_group_ring_step_ns(&wide, INT64_MAX), INT64_MAX / 4);
}

TEST(gradients_are_reduced_layer_by_layer)
{
    const int64_t parameters[] = {0, 1000, INT64_MAX / 2};
    const bal_group replicas = group_of(4, 1);
    int64_t reduction_ns[3];

    bal_gradient_reductions_ns(parameters, 3, 4, &replicas, reduction_ns);

    assert_int_equal(reduction_ns[0], 6 * 100);
    assert_int_equal(reduction_ns[1], 6 * (100 + 10000));
    assert_int_equal(reduction_ns[2], bal_group_all_reduce_ns(&replicas, INT64_MAX));
}

TEST(more_bytes_and_slower_links_never_take_less_time)
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
    return run_all_tests(NULL, NULL);
}
