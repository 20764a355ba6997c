/// freezing: schedules worked out by hand, and that layers freeze front to back whatever is drawn.
#include "models/dynamism/freezing.h"
#include "tests/assert_close.h"

enum { LAYERS = 12 };

static void check_schedule(const int *freeze_at, const int *expected)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        assert_int_equal(freeze_at[layer], expected[layer]);
    }
}

static void one_more_layer_every_interval(void **state)
{
    (void)state;
    int freeze_at[LAYERS];
    const int never = MODEL_FREEZE_NEVER;
    model_freeze_by_interval(100, 50, 4, LAYERS, freeze_at);
    check_schedule(freeze_at, (const int[]){100, 150, 200, 250, never, never, never, never, never,
                                            never, never, never});
    assert_int_equal(model_frozen_count(freeze_at, LAYERS, 99), 0);
    assert_int_equal(model_frozen_count(freeze_at, LAYERS, 100), 1);
    assert_int_equal(model_frozen_count(freeze_at, LAYERS, 249), 3);
    assert_int_equal(model_frozen_count(freeze_at, LAYERS, 1 << 30), 4);
}

static void late_intervals_stop_at_never(void **state)
{
    (void)state;
    int freeze_at[LAYERS];
    model_freeze_by_interval(INT_MAX - 10, INT_MAX, LAYERS, LAYERS, freeze_at);
    assert_int_equal(freeze_at[0], INT_MAX - 10);
    assert_int_equal(freeze_at[1], MODEL_FREEZE_NEVER);
}

static void a_share_of_the_learning_layers_is_pipetransformers_series(void **state)
{
    (void)state;
    int freeze_at[LAYERS];
    // ceil(12 (1 - 2^-e)): 6, 9, 11, 12 after 1, 2, 3, 4 epochs.
    model_freeze_by_share(0.5, 10, 10, LAYERS, LAYERS, freeze_at);
    check_schedule(freeze_at, (const int[]){10, 10, 10, 10, 10, 10, 20, 20, 20, 30, 30, 40});
    // ceil(12 (1 - (2/3)^e)): 4, 7, 9, 10, 11, 11, 12.
    model_freeze_by_share(1.0 / 3, 10, 10, LAYERS, LAYERS, freeze_at);
    check_schedule(freeze_at, (const int[]){10, 10, 10, 10, 20, 20, 20, 30, 30, 40, 50, 70});
}

static void plasticity_lasts_longer_the_deeper_a_layer_is(void **state)
{
    (void)state;
    int freeze_at[LAYERS];
    rng random = rng_init(1, 0);
    const model_plasticity linear = {100, 1600, 1, 0};
    model_freeze_by_plasticity(&linear, &random, 5, LAYERS, freeze_at);
    const int never = MODEL_FREEZE_NEVER;
    check_schedule(freeze_at, (const int[]){100, 475, 850, 1225, 1600, never, never, never, never,
                                            never, never, never});
    const model_plasticity coarse = {100, 1600, 300, 0};
    model_freeze_by_plasticity(&coarse, &random, 5, LAYERS, freeze_at);
    assert_int_equal(freeze_at[0], 300);
    assert_int_equal(freeze_at[1], 600);
    assert_int_equal(freeze_at[2], 900);
    assert_int_equal(freeze_at[3], 1500);
    assert_int_equal(freeze_at[4], 1800);
    model_freeze_by_plasticity(&coarse, &random, 1, LAYERS, freeze_at);
    assert_int_equal(freeze_at[0], 300);
    assert_int_equal(freeze_at[1], never);
}

static void whatever_is_drawn_layers_freeze_front_to_back_at_evaluations(void **state)
{
    (void)state;
    const uint64_t seed = 5;
    rng random = rng_init(seed, 0);
    for (int round = 0; round < 300; round++) {
        int freeze_at[LAYERS];
        const int most = (int)rng_between(&random, 0, LAYERS);
        model_plasticity plasticity = {.first_iteration = (int)rng_between(&random, 1, 1000),
                                       .evaluation_interval = (int)rng_between(&random, 1, 60),
                                       .jitter = rng_unit(&random)};
        plasticity.last_iteration =
            plasticity.first_iteration + (int)rng_between(&random, 0, 100000);
        model_freeze_by_plasticity(&plasticity, &random, most, LAYERS, freeze_at);
        for (int layer = 0; layer < LAYERS; layer++) {
            if (layer >= most) {
                assert_int_equal(freeze_at[layer], MODEL_FREEZE_NEVER);
                continue;
            }
            assert_int_equal(freeze_at[layer] % plasticity.evaluation_interval, 0);
            if (layer > 0) assert_true(freeze_at[layer] >= freeze_at[layer - 1]);
        }
        int before = 0;
        for (int iteration = 0; iteration < 200000; iteration += 997) {
            const int frozen = model_frozen_count(freeze_at, LAYERS, iteration);
            assert_true(frozen >= before && frozen <= most);
            before = frozen;
        }
    }
}

static void another_seed_freezes_at_other_times(void **state)
{
    (void)state;
    const model_plasticity plasticity = {1000, 9000, 1, 0.2};
    int freeze_at[3][LAYERS];
    for (int draw = 0; draw < 3; draw++) {
        rng random = rng_init(draw == 2 ? 8 : 7, 0);
        model_freeze_by_plasticity(&plasticity, &random, LAYERS, LAYERS, freeze_at[draw]);
    }
    check_schedule(freeze_at[0], freeze_at[1]);
    assert_true(freeze_at[0][0] != freeze_at[2][0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_more_layer_every_interval),
        cmocka_unit_test(late_intervals_stop_at_never),
        cmocka_unit_test(a_share_of_the_learning_layers_is_pipetransformers_series),
        cmocka_unit_test(plasticity_lasts_longer_the_deeper_a_layer_is),
        cmocka_unit_test(whatever_is_drawn_layers_freeze_front_to_back_at_evaluations),
        cmocka_unit_test(another_seed_freezes_at_other_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
