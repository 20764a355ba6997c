/// token_survival: the decay by hand, and that tokens only ever leave.
#include "base/rng.h"
#include "models/dynamism/token_survival.h"
#include "tests/assert_close.h"

static void exits_everywhere_make_a_geometric_decay(void **state)
{
    (void)state;
    const bool has_exit[] = {false, false, true, true, true, true};
    double share[6];
    model_token_shares(0.5, has_exit, 6, share);
    const double expected[] = {1, 1, 1, 0.5, 0.25, 0.125};
    for (int layer = 0; layer < 6; layer++) {
        assert_true(share[layer] == expected[layer]);
    }
}

static void between_exits_nobody_leaves(void **state)
{
    (void)state;
    const bool has_exit[] = {true, false, false, true, false, false};
    double share[6];
    model_token_shares(0.5, has_exit, 6, share);
    const double expected[] = {1, 0.5, 0.5, 0.5, 0.0625, 0.0625};
    for (int layer = 0; layer < 6; layer++) {
        assert_true(share[layer] == expected[layer]);
    }
}

static void without_exits_all_tokens_stay(void **state)
{
    (void)state;
    const bool has_exit[3] = {false};
    double share[3];
    model_token_shares(0, has_exit, 3, share);
    assert_true(share[0] == 1 && share[1] == 1 && share[2] == 1);
}

static void shares_never_rise_with_depth_and_rise_with_what_is_kept(void **state)
{
    (void)state;
    const uint64_t seed = 23;
    rng random = rng_init(seed, 0);
    for (int round = 0; round < 500; round++) {
        enum { LAYERS = 20 };
        bool has_exit[LAYERS];
        double share[LAYERS];
        double more[LAYERS];
        for (int layer = 0; layer < LAYERS; layer++) {
            has_exit[layer] = rng_below(&random, 3) == 0;
        }
        const double keep = rng_unit(&random);
        model_token_shares(keep, has_exit, LAYERS, share);
        model_token_shares(keep + (1 - keep) * rng_unit(&random), has_exit, LAYERS, more);
        for (int layer = 0; layer < LAYERS; layer++) {
            assert_true(share[layer] >= 0 && share[layer] <= 1);
            assert_true(layer == 0 || share[layer] <= share[layer - 1]);
            assert_true(more[layer] >= share[layer]);
        }
    }
}

static void what_is_kept_falls_at_intervals_from_its_first_value_to_its_last(void **state)
{
    (void)state;
    assert_true(model_exit_keep(1, 0.9, 100, 10, 0) == 1);
    assert_true(model_exit_keep(1, 0.9, 100, 10, 9) == 1);
    assert_close(model_exit_keep(1, 0.9, 100, 10, 100), 0.9 + 0.1 * 0.36787944117, 1e-10);
    assert_close(model_exit_keep(1, 0.9, 100, 10, 109), 0.9 + 0.1 * 0.36787944117, 1e-10);
    assert_close(model_exit_keep(1, 0.9, 100, 10, 1000000), 0.9, 1e-12);
    double before = 1;
    for (int iteration = 0; iteration < 1000; iteration++) {
        const double keep = model_exit_keep(1, 0.9, 100, 10, iteration);
        assert_true(iteration % 10 == 0 ? keep <= before : keep == before);
        before = keep;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exits_everywhere_make_a_geometric_decay),
        cmocka_unit_test(between_exits_nobody_leaves),
        cmocka_unit_test(without_exits_all_tokens_stay),
        cmocka_unit_test(shares_never_rise_with_depth_and_rise_with_what_is_kept),
        cmocka_unit_test(what_is_kept_falls_at_intervals_from_its_first_value_to_its_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
