/// The regret of choices, by hand.
#include "analysis/calibration/calibration_score.h"
#include "tests/assert_close.h"

static void regret_is_what_the_chosen_run_takes_beyond_the_best(void **state)
{
    (void)state;
    arena *memory = arena_create(4096);
    const ana_run_shape small = {2, 8, 1, 64, 1, 4, 64, 1000, 1, 2, 1};
    ana_run_shape large = small;
    large.hidden_size = 128;
    ana_run_shape alone = small;
    alone.gpu_count = 4;
    const ana_run_shape shapes[] = {small, large, small, large, small, alone};
    // small: 100 is chosen where 80 was best, 1/4 too long; at random (100 + 80 + 120) / 3 / 80
    // - 1. large: the best is chosen; at random (50 + 60) / 2 / 50 - 1.
    const double measured[] = {100, 50, 80, 60, 120, 7};
    const double predicted[] = {70, 51, 90, 52, 110, 9};
    ana_choice found;

    ana_choice_score(shapes, measured, predicted, 6, memory, &found);

    assert_int_equal(found.group_count, 2);
    assert_int_equal(found.run_count, 5);
    assert_close(found.best_share, 0.5, 1e-12);
    assert_close(found.regret_mean, 0.125, 1e-12);
    assert_close(found.regret_max, 0.25, 1e-12);
    assert_close(found.blind_mean, (0.25 + 0.1) / 2, 1e-12);
    arena_destroy(memory);
}

static void runs_without_an_alternative_do_not_count(void **state)
{
    (void)state;
    arena *memory = arena_create(4096);
    const ana_run_shape shape = {2, 8, 1, 64, 1, 4, 64, 1000, 1, 2, 1};
    ana_choice found;

    ana_choice_score(&shape, (double[]){1}, (double[]){1}, 1, memory, &found);

    assert_int_equal(found.group_count, 0);
    assert_true(found.regret_mean <= 0 && found.best_share <= 0);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regret_is_what_the_chosen_run_takes_beyond_the_best),
        cmocka_unit_test(runs_without_an_alternative_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
