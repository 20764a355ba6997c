/// Shares of the variance, on functions whose shares are known.
#include "analysis/whatif/variance_shares.h"
#include "base/rng.h"
#include "tests/assert_close.h"

#include <math.h>

enum { DRAWS = 1000, INPUTS = 3 };

static double inputs[INPUTS * DRAWS];
static double values[DRAWS];
static double factor[DRAWS];

static void draw_inputs(uint64_t seed, int draw_count)
{
    rng random = rng_init(seed, 0);
    for (int value = 0; value < INPUTS * draw_count; value++)
        inputs[value] = rng_unit(&random);
}

static void divide(ana_variation variation, double *shares, double *unexplained)
{
    arena *memory = arena_create(1 << 16);
    error_message err = {0};
    assert_non_null(memory);
    assert_int_equal(ana_variance_shares(&variation, memory, shares, unexplained, &err), STATUS_OK);
    arena_destroy(memory);
}

/// log y = 3 a + 2 b + 0 c: shares 9/13, 4/13 and 0.
static void shares_of_a_linear_function_are_its_squared_slopes(void **state)
{
    (void)state;
    double shares[INPUTS];
    double unexplained = -1;
    draw_inputs(1, DRAWS);
    for (int draw = 0; draw < DRAWS; draw++) {
        values[draw] = exp(3 * inputs[draw] + 2 * inputs[DRAWS + draw]);
    }

    divide((ana_variation){values, inputs, INPUTS, NULL, 0, DRAWS}, shares, &unexplained);

    assert_true(fabs(shares[0] - 9.0 / 13) < 0.03);
    assert_true(fabs(shares[1] - 4.0 / 13) < 0.03);
    assert_true(shares[2] < 0.005);
    assert_true(unexplained < 0.005);
}

/// A parabola around the middle has no slope, and all of the variance.
static void a_parabola_is_seen(void **state)
{
    (void)state;
    double shares[INPUTS];
    double unexplained = -1;
    draw_inputs(2, DRAWS);
    for (int draw = 0; draw < DRAWS; draw++) {
        const double off = inputs[DRAWS + draw] - 0.5;
        values[draw] = exp(off * off);
    }

    divide((ana_variation){values, inputs, INPUTS, NULL, 0, DRAWS}, shares, &unexplained);

    assert_true(shares[1] > 0.98);
    assert_true(shares[0] < 0.01 && shares[2] < 0.01);
}

/// (a - 1/2) (b - 1/2): neither does anything alone.
static void what_inputs_do_together_is_unexplained(void **state)
{
    (void)state;
    double shares[INPUTS];
    double unexplained = -1;
    draw_inputs(3, DRAWS);
    for (int draw = 0; draw < DRAWS; draw++) {
        values[draw] = exp((inputs[draw] - 0.5) * (inputs[DRAWS + draw] - 0.5));
    }

    divide((ana_variation){values, inputs, INPUTS, NULL, 0, DRAWS}, shares, &unexplained);

    assert_true(unexplained > 0.95);
}

/// A factor of its own, as much as input a: half each.
static void factors_have_shares_of_their_own(void **state)
{
    (void)state;
    double shares[INPUTS + 1];
    double unexplained = -1;
    rng random = rng_init(9, 1);
    draw_inputs(4, DRAWS);
    for (int draw = 0; draw < DRAWS; draw++) {
        factor[draw] = exp(0.1 * rng_unit(&random));
        values[draw] = exp(0.1 * inputs[draw]) * factor[draw];
    }

    divide((ana_variation){values, inputs, INPUTS, factor, 1, DRAWS}, shares, &unexplained);

    assert_true(fabs(shares[0] - 0.5) < 0.05);
    assert_true(fabs(shares[INPUTS] - 0.5) < 0.05);
    assert_close(shares[0] + shares[1] + shares[2] + shares[3] + unexplained, 1, 0.01);
}

/// Inputs without effect get no share on average, also where there are few draws.
static void noise_is_not_explained_by_chance(void **state)
{
    (void)state;
    enum { FEW = 20, ROUNDS = 200 };
    double sum = 0;
    rng random = rng_init(6, 0);
    for (int round = 0; round < ROUNDS; round++) {
        double shares[INPUTS];
        double unexplained = -1;
        draw_inputs((uint64_t)round, FEW);
        for (int draw = 0; draw < FEW; draw++)
            values[draw] = exp(rng_unit(&random));
        divide((ana_variation){values, inputs, INPUTS, NULL, 0, FEW}, shares, &unexplained);
        sum += 1 - unexplained;
    }

    assert_true(sum / ROUNDS < 0.12); // without the correction 3/19 + what is above 0 only
}

static void what_does_not_vary_has_no_shares(void **state)
{
    (void)state;
    double shares[INPUTS] = {7, 7, 7};
    double unexplained = 7;
    draw_inputs(7, 30);
    for (int draw = 0; draw < 30; draw++)
        values[draw] = 42;

    divide((ana_variation){values, inputs, INPUTS, NULL, 0, 30}, shares, &unexplained);

    assert_true(shares[0] == 0 && shares[1] == 0 && shares[2] == 0 && unexplained == 0);
}

static void an_input_that_does_not_vary_has_none(void **state)
{
    (void)state;
    double shares[INPUTS];
    double unexplained = -1;
    draw_inputs(8, DRAWS);
    for (int draw = 0; draw < DRAWS; draw++) {
        inputs[draw] = 0.3;
        values[draw] = exp(inputs[DRAWS + draw]);
    }

    divide((ana_variation){values, inputs, INPUTS, NULL, 0, DRAWS}, shares, &unexplained);

    assert_true(shares[0] == 0);
    assert_true(shares[1] > 0.99);
}

static void too_few_draws_are_refused(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 12);
    double shares[INPUTS] = {7, 7, 7};
    double unexplained = 7;
    error_message err = {0};
    const ana_variation variation = {values, inputs, INPUTS, NULL, 0, 7};

    assert_int_equal(ana_variance_shares(&variation, memory, shares, &unexplained, &err),
                     STATUS_INVALID);

    assert_string_equal(err.message, "7 draws are too few for the shares of 3 inputs: at least 8");
    assert_true(shares[0] == 7 && unexplained == 7);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_of_a_linear_function_are_its_squared_slopes),
        cmocka_unit_test(a_parabola_is_seen),
        cmocka_unit_test(what_inputs_do_together_is_unexplained),
        cmocka_unit_test(factors_have_shares_of_their_own),
        cmocka_unit_test(noise_is_not_explained_by_chance),
        cmocka_unit_test(what_does_not_vary_has_no_shares),
        cmocka_unit_test(an_input_that_does_not_vary_has_none),
        cmocka_unit_test(too_few_draws_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
