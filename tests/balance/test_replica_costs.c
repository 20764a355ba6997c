/// What the controller sees of several replicas: the largest of the means, at the speed of the rank
/// that held the layer.
#include "balance/run/training_costs.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

enum { LAYERS = 2 };

static const int64_t first_ns[] = {100, 200, 10, 31};  // [layer][column]
static const int64_t second_ns[] = {120, 120, 40, 41}; // means 120 and 41 (40.5 rounded up)
static const int64_t no_ns[] = {0, 0, 0, 0};
static const int64_t first_bytes[] = {7, 8};
static const int64_t second_bytes[] = {9, 2};

static void two_replicas(bal_layer_costs replicas[2])
{
    replicas[0] = (bal_layer_costs){.layer_count = LAYERS,
                                    .microbatch_count = 2,
                                    .has_split = true,
                                    .head = true,
                                    .forward_ns = first_ns,
                                    .backward_input_ns = no_ns,
                                    .backward_weight_ns = no_ns,
                                    .state_bytes = first_bytes};
    replicas[1] = replicas[0];
    replicas[1].forward_ns = second_ns;
    replicas[1].state_bytes = second_bytes;
    replicas[1].reduction_ns = first_bytes;
}

static void the_largest_of_the_means_counts(void **state)
{
    bal_layer_costs replicas[2];
    two_replicas(replicas);
    const bal_replica_costs costs = {.replicas = replicas, .replica_count = 2, .column_count = 1};
    bal_layer_costs merged;

    assert_ok(bal_replica_costs_merge(&costs, memory, &merged, &why));

    assert_int_equal(merged.microbatch_count, 1);
    assert_int_equal(merged.forward_ns[0], 150);
    assert_int_equal(merged.forward_ns[1], 41);
    assert_int_equal(merged.state_bytes[0], 9);
    assert_int_equal(merged.state_bytes[1], 8);
    assert_int_equal(merged.reduction_ns[0], 7);
    assert_null(merged.parameters);
    assert_true(merged.head && merged.has_split);
}

static void columns_stay_and_slow_ranks_slow_their_layers(void **state)
{
    bal_layer_costs replicas[2];
    two_replicas(replicas);
    const int rank_of_layer[] = {0, 1};
    const double factor[] = {1.0, 1.5};
    const bal_replica_costs costs = {.replicas = replicas,
                                     .replica_count = 1,
                                     .column_count = 2,
                                     .rank_time_factor = factor,
                                     .rank_of_layer = rank_of_layer};
    bal_layer_costs merged;

    assert_ok(bal_replica_costs_merge(&costs, memory, &merged, &why));

    assert_int_equal(merged.microbatch_count, 2);
    assert_int_equal(merged.forward_ns[1], 200);
    assert_int_equal(merged.forward_ns[2], 15);
    assert_int_equal(merged.forward_ns[3], 47); // 46.5
}

static void times_that_have_no_mean_are_refused(void **state)
{
    bal_layer_costs replicas[2];
    two_replicas(replicas);
    const int64_t negative[] = {1, 1, 1, -1};
    replicas[1].backward_input_ns = negative;
    const bal_replica_costs costs = {
        .iteration = 5, .replicas = replicas, .replica_count = 2, .column_count = 1};
    bal_layer_costs merged;

    assert_fails(bal_replica_costs_merge(&costs, memory, &merged, &why), STATUS_INVALID,
                 "iteration 5: the times of layer 1 are negative or do not fit 64 bits");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_of_the_means_counts),
        cmocka_unit_test(columns_stay_and_slow_ranks_slow_their_layers),
        cmocka_unit_test(times_that_have_no_mean_are_refused),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
