/// What knowing an input is worth, on choices that are worked out by hand.
#include "analysis/whatif/ranking.h"
#include "base/rng.h"
#include "tests/assert_close.h"

#include <math.h>

enum { DRAWS = 900 };

static double losses_of[3 * DRAWS];
static double known[DRAWS];
static double other[DRAWS];

static void judge(int point_count, double equivalence, ana_choice_quality *now,
                  ana_choice_quality *knowing, ana_choice_quality *knowing_other)
{
    arena *memory = arena_create(1 << 16);
    const ana_losses losses = {losses_of, point_count, DRAWS};
    ana_choice_now(&losses, equivalence, memory, now);
    ana_choice_knowing(&losses, known, equivalence, memory, knowing);
    ana_choice_knowing(&losses, other, equivalence, memory, knowing_other);
    arena_destroy(memory);
}

/// Point 0 costs 10, point 1 costs 10 + x, x even over [-1, 2]: point 0 is chosen, and wrong where
/// x < 0, a third of the time, by 1/2 then: a regret of 1/6. Knowing x takes all of it away.
/// Knowing y, which moves both, takes nothing.
static void two_points_by_hand(void **state)
{
    (void)state;
    ana_choice_quality now, knowing, knowing_other;
    rng random = rng_init(1, 0);
    for (int draw = 0; draw < DRAWS; draw++) {
        known[draw] = -1 + 3 * (draw + 0.5) / DRAWS;
        other[draw] = rng_unit(&random);
        losses_of[draw] = 10;
        losses_of[DRAWS + draw] = 10 + known[draw];
    }

    judge(2, 0, &now, &knowing, &knowing_other);

    assert_close(now.wrong_probability, 1.0 / 3, 1e-9);
    assert_close(now.regret_ratio, 1.0 / 6 / 10, 1e-4);
    assert_true(knowing.wrong_probability == 0 && knowing.regret_ratio == 0);
    assert_true(knowing_other.wrong_probability > 0.3);
    assert_close(knowing_other.regret_ratio, now.regret_ratio, 0.02);
}

/// With noise of +-1/2 beside x, knowing x still leaves a wrong choice where |x| is below the
/// noise.
static void noise_that_stays_keeps_its_part_of_the_risk(void **state)
{
    (void)state;
    ana_choice_quality now, knowing, knowing_other;
    rng random = rng_init(2, 0);
    for (int draw = 0; draw < DRAWS; draw++) {
        known[draw] = -1 + 3 * (draw + 0.5) / DRAWS;
        other[draw] = rng_unit(&random) - 0.5;
        losses_of[draw] = 10;
        losses_of[DRAWS + draw] = 10 + known[draw] + other[draw];
    }

    judge(2, 0, &now, &knowing, &knowing_other);

    // Of |x| < 1/2, a third of the draws, a quarter is wrong: 1/12.
    assert_true(fabs(knowing.wrong_probability - 1.0 / 12) < 0.02);
    assert_true(knowing.wrong_probability < knowing_other.wrong_probability);
    assert_true(knowing.regret_ratio < knowing_other.regret_ratio);
}

/// Three points, each the best in its own range of x: bent, so a line would not do.
static void a_middle_point_is_found_by_a_curve(void **state)
{
    (void)state;
    ana_choice_quality now, knowing, knowing_other;
    for (int draw = 0; draw < DRAWS; draw++) {
        const double x = 2 * (draw + 0.5) / DRAWS - 1;
        known[draw] = x;
        other[draw] = (draw * 7) % 13;
        losses_of[draw] = 10 + x;
        losses_of[DRAWS + draw] = 9.7 + x * x;
        losses_of[2 * DRAWS + draw] = 10 - x;
    }

    judge(3, 0, &now, &knowing, &knowing_other);

    assert_true(now.wrong_probability > 0.3);
    assert_true(knowing.wrong_probability < 0.01);
}

static void losses_within_the_margin_are_not_wrong(void **state)
{
    (void)state;
    ana_choice_quality now, knowing, knowing_other;
    for (int draw = 0; draw < DRAWS; draw++) {
        known[draw] = other[draw] = draw % 5;
        losses_of[draw] = 10;
        losses_of[DRAWS + draw] = draw % 2 == 0 ? 9.95 : 10.06;
    }

    judge(2, 0.01, &now, &knowing, &knowing_other);

    assert_true(now.wrong_probability == 0);
    assert_true(now.regret_ratio > 0);
}

static void points_that_do_not_always_fit_are_no_choice(void **state)
{
    (void)state;
    ana_choice_quality now, knowing, knowing_other;
    for (int draw = 0; draw < DRAWS; draw++) {
        known[draw] = other[draw] = draw;
        losses_of[draw] = 10;
        losses_of[DRAWS + draw] = draw == 3 ? INFINITY : 1;
    }

    judge(2, 0, &now, &knowing, &knowing_other);
    assert_true(now.wrong_probability == 0 && knowing.wrong_probability == 0);

    losses_of[0] = INFINITY;
    judge(2, 0, &now, &knowing, &knowing_other);
    assert_true(now.wrong_probability == 0 && knowing.regret_ratio == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_points_by_hand),
        cmocka_unit_test(noise_that_stays_keeps_its_part_of_the_risk),
        cmocka_unit_test(a_middle_point_is_found_by_a_curve),
        cmocka_unit_test(losses_within_the_margin_are_not_wrong),
        cmocka_unit_test(points_that_do_not_always_fit_are_no_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
