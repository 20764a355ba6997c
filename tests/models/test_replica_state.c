/// replica_state: memory of sharded optimizers as published, and what replicas exchange when.
#include "models/cost/parallel.h"
#include "tests/assert_close.h"

/// Adam in mixed precision as the ZeRO paper counts it: 16-bit weights and gradients, K = 12.
static const model_parameter_bytes zero = {.weight = 2, .gradient = 2, .optimizer = 12};

static const bal_link link = {.latency_ns = 0, .bytes_per_s = 1000000000};

/// Rajbhandari et al., arXiv 1910.02054, figure 1: 7.5 billion parameters, 64 GPUs.
static void sharded_state_is_that_of_the_zero_paper(void **state)
{
    const int64_t parameters = 7500000000;
    const double published[MODEL_SHARDING_COUNT] = {120, 31.4, 16.6, 1.9};
    for (int sharding = 0; sharding < MODEL_SHARDING_COUNT; sharding++) {
        const int64_t bytes = model_state_bytes(parameters, zero, (model_sharding)sharding, 64);
        assert_true(fabs((double)bytes / 1e9 - published[sharding]) <= 0.05);
    }
}

static void shares_are_rounded_up_and_saturate(void **state)
{
    assert_int_equal(model_state_bytes(1, zero, MODEL_SHARDING_PARAMETERS, 64), 3);
    assert_int_equal(model_state_bytes(10, zero, MODEL_SHARDING_OPTIMIZER, 1), 160);
    assert_true(model_state_bytes(INT64_MAX / 2, zero, MODEL_SHARDING_NONE, 64) == INT64_MAX);
    assert_true(model_state_bytes(INT64_MAX / 2, zero, MODEL_SHARDING_PARAMETERS, 64) == INT64_MAX);
}

static void replicas_exchange_when_they_need_to(void **state)
{
    const model_parameter_bytes bytes = {.weight = 2, .gradient = 4, .optimizer = 12};
    const bal_group four = {4, 4, link, link};
    // 1000 parameters: gathering weights takes 3 x 500 ns, scattering gradients 3 x 1000 ns.
    static const int64_t wanted[MODEL_SHARDING_COUNT][4] = {
        {6000, 0, 0, 0}, {4500, 0, 0, 0}, {1500, 0, 0, 3000}, {0, 1500, 1500, 3000}};
    for (int sharding = 0; sharding < MODEL_SHARDING_COUNT; sharding++) {
        const model_replica_traffic traffic =
            model_replica_traffic_of(1000, bytes, (model_sharding)sharding, &four);
        assert_int_equal(traffic.step_ns, wanted[sharding][0]);
        assert_int_equal(traffic.forward_ns, wanted[sharding][1]);
        assert_int_equal(traffic.backward_ns, wanted[sharding][2]);
        assert_int_equal(traffic.gradient_ns, wanted[sharding][3]);
    }
}

static void nothing_to_exchange_takes_no_latency(void **state)
{
    const bal_link far = {.latency_ns = 5, .bytes_per_s = 1};
    const bal_group four = {4, 1, far, far};

    assert_int_equal(model_replica_traffic_of(0, zero, MODEL_SHARDING_NONE, &four).step_ns, 0);
    assert_true(
        model_replica_traffic_of(INT64_MAX, zero, MODEL_SHARDING_OPTIMIZER, &four).step_ns ==
        INT64_MAX / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharded_state_is_that_of_the_zero_paper),
        cmocka_unit_test(shares_are_rounded_up_and_saturate),
        cmocka_unit_test(replicas_exchange_when_they_need_to),
        cmocka_unit_test(nothing_to_exchange_takes_no_latency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
