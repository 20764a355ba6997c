/// Order and Pareto set of the points of a study: against the definition, written out plainly, on
/// seeded random points. Points over draws: intervals that hold what they promise, paired
/// differences beside unpaired ones, and the truth table of what cannot be told apart.
#include "analysis/whatif/whatif.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <math.h>

enum { POINTS = 60 };

/// Few different values, so that ties and points that are alike come about.
static ana_point random_point(rng *generator)
{
    const double time = (double)(1 + rng_below(generator, 6));
    const bool is_refused = rng_below(generator, 8) == 0;
    return (ana_point){
        .refusal = is_refused ? ANA_REFUSAL_MEMORY : ANA_REFUSAL_NONE,
        .iteration_ns = time,
        .train_ns = time * 100,
        .per_second = 1 / time,
        .gpu_count = (double)(1 + rng_below(generator, 3)),
        .gpu_hours = (double)(1 + rng_below(generator, 5)),
        .cost = (double)(1 + rng_below(generator, 4)),
        .peak_memory_bytes = (int64_t)(1 + rng_below(generator, 4)),
        .training = 1 + rng_below(generator, 2),
    };
}

/// At least as good in everything, better in something.
static bool beats(const ana_point *one, const ana_point *other)
{
    const double a[] = {one->train_ns, -one->per_second, one->gpu_hours, one->cost,
                        (double)one->peak_memory_bytes};
    const double b[] = {other->train_ns, -other->per_second, other->gpu_hours, other->cost,
                        (double)other->peak_memory_bytes};
    bool is_better = false;
    for (int quality = 0; quality < 5; quality++) {
        if (a[quality] > b[quality]) return false;
        if (a[quality] < b[quality]) is_better = true;
    }
    return is_better;
}

static bool is_beaten(const ana_point *points, int index)
{
    for (int other = 0; other < POINTS; other++) {
        if (points[other].refusal == ANA_REFUSAL_NONE &&
            points[other].training == points[index].training &&
            beats(&points[other], &points[index])) {
            return true;
        }
    }
    return false;
}

TEST(the_pareto_set_is_what_nothing_beats)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        rng generator = rng_init(seed, 0);
        arena_reset(memory);
        ana_point points[POINTS];
        ana_standing standing;
        for (int index = 0; index < POINTS; index++) {
            points[index] = random_point(&generator);
        }

        ana_standing_find(points, POINTS, 1, ANA_OBJECTIVE_TIME, memory, &standing);

        for (int index = 0; index < POINTS; index++) {
            if (points[index].refusal != ANA_REFUSAL_NONE) {
                assert_false(standing.is_pareto[index]);
            } else if (standing.is_pareto[index] == is_beaten(points, index)) {
                fail_msg("seed %d, point %d", (int)seed, index);
            }
        }
    }
}

static double objective_of(const ana_point *point, ana_objective objective)
{
    const double values[] = {point->train_ns, point->gpu_hours, point->cost,
                             (double)point->peak_memory_bytes};
    return values[objective];
}

TEST(points_are_ordered_by_the_objective_other_trainings_behind)
{
    for (int objective = 0; objective < ANA_OBJECTIVE_COUNT; objective++) {
        rng generator = rng_init(17, (uint64_t)objective);
        arena_reset(memory);
        ana_point points[POINTS];
        ana_standing standing;
        for (int index = 0; index < POINTS; index++) {
            points[index] = random_point(&generator);
        }

        ana_standing_find(points, POINTS, 2, (ana_objective)objective, memory, &standing);

        for (int64_t rank = 0; rank < standing.feasible_count; rank++) {
            const ana_point *point = &points[standing.order[rank]];
            assert_int_equal(point->refusal, ANA_REFUSAL_NONE);
            assert_int_equal(point->training == 2, rank < standing.comparable_count);
            if (rank == 0 || rank == standing.comparable_count) continue;
            const ana_point *before = &points[standing.order[rank - 1]];
            const double here = objective_of(point, (ana_objective)objective);
            const double there = objective_of(before, (ana_objective)objective);
            assert_true(there <= here);
            if (there == here) assert_true(before->train_ns <= point->train_ns);
        }
    }
}

TEST(points_that_are_alike_end_where_one_figure_differs)
{
    const ana_point point = {.iteration_ns = 2,
                             .train_ns = 2,
                             .per_second = 0.5,
                             .gpu_count = 1,
                             .gpu_hours = 1,
                             .cost = -1,
                             .peak_memory_bytes = 5,
                             .training = 1};
    ana_point points[4] = {point, point, point, point};
    ana_standing standing;
    points[2].peak_memory_bytes = 6;
    points[3].peak_memory_bytes = 6;
    points[3].training = 2;

    ana_standing_find(points, 4, 1, ANA_OBJECTIVE_TIME, memory, &standing);

    assert_int_equal(ana_standing_alike_end(&standing, points, 0, 4), 2);
    assert_int_equal(ana_standing_alike_end(&standing, points, 2, 4), 3);
    assert_int_equal(ana_standing_alike_end(&standing, points, 0, 1), 1);
}

enum { DRAWS = 400, POINTS_MAX = 5 };

static void rank(const double *values, int point_count, int draw_count, ana_ranked *standings)
{
    const ana_losses losses = {values, point_count, draw_count};
    ana_rank(&losses, memory, standings);
}

TEST(quantiles_lie_between_the_draws_beside_them)
{
    const double values[] = {50, 10, 40, 20, 30};
    double scratch[5];

    const ana_error_bar interval = ana_error_bar_of(values, 5, scratch);

    assert_close(interval.low, 12, 1e-12);
    assert_close(interval.middle, 30, 1e-12);
    assert_close(interval.high, 48, 1e-12);
    assert_close(ana_error_bar_of(values, 1, scratch).high, 50, 0);
}

TEST(what_does_not_fit_in_enough_draws_has_no_upper_end)
{
    const double values[] = {1, INFINITY, 2, INFINITY, 3};
    double scratch[5];

    const ana_error_bar interval = ana_error_bar_of(values, 5, scratch);

    assert_close(interval.low, 1.2, 1e-12);
    assert_close(interval.middle, 3, 1e-12);
    assert_true(isinf(interval.high));
}

/// Two points share an input that moves both by far more than they differ.
static void fill_shared(double *values, double ratio, double noise)
{
    rng random = rng_init(3, 0);
    for (int draw = 0; draw < DRAWS; draw++) {
        const double shared = 50 + 100 * rng_unit(&random);
        values[draw] = shared * (1 + noise * (rng_unit(&random) - 0.5));
        values[DRAWS + draw] = ratio * shared * (1 + noise * (rng_unit(&random) - 0.5));
    }
}

TEST(paired_differences_tell_apart_what_intervals_do_not)
{
    static double values[2 * DRAWS];
    ana_ranked standings[2];
    fill_shared(values, 1.05, 0.01);

    rank(values, 2, DRAWS, standings);

    assert_int_equal(standings[0].point, 0);
    assert_true(standings[1].behind.low > 0.04 && standings[1].behind.high < 0.06);
    assert_int_equal(standings[1].group, 2);
    assert_close(standings[0].best_probability, 1, 1e-12);
}

TEST(a_difference_below_its_noise_is_indistinguishable)
{
    static double values[2 * DRAWS];
    ana_ranked standings[2];
    fill_shared(values, 1.002, 0.1);

    rank(values, 2, DRAWS, standings);

    assert_int_equal(standings[0].group, 1);
    assert_int_equal(standings[1].group, 1);
    assert_true(standings[0].best_probability > 0.4 && standings[0].best_probability < 0.65);
}

/// Differences of a second point to the first, steady over the draws but for a spread.
static int group_of_second(double shift, double spread)
{
    static double values[2 * DRAWS];
    ana_ranked standings[2];
    for (int draw = 0; draw < DRAWS; draw++) {
        const double unit = (double)draw / (DRAWS - 1) - 0.5;
        values[draw] = 100;
        values[DRAWS + draw] = 100 * (1 + shift + spread * unit);
    }
    rank(values, 2, DRAWS, standings);
    return standings[1].group;
}

TEST(the_truth_table_of_indistinguishable_holds)
{
    assert_int_equal(group_of_second(0, 0), 1);      // the same
    assert_int_equal(group_of_second(1e-6, 0), 2);   // little, and always
    assert_int_equal(group_of_second(0.01, 0.1), 1); // 0 within 90 %: -3.5 .. 5.5 %
    assert_int_equal(group_of_second(0.05, 0.1), 2); // 0.5 .. 9.5 %
}

TEST(groups_begin_with_the_best_that_is_left)
{
    const double values[] = {
        120, 121, 122, // third
        100, 101, 102, // best
        120, 122, 121, // like the third
        101, 100, 102, // like the best
        150, 150, 150, // alone
    };
    ana_ranked standings[POINTS_MAX];

    rank(values, 5, 3, standings);

    const int points[] = {1, 3, 0, 2, 4};
    const int groups[] = {1, 1, 2, 2, 3};
    for (int place = 0; place < 5; place++) {
        assert_int_equal(standings[place].point, points[place]);
        assert_int_equal(standings[place].group, groups[place]);
    }
}

TEST(draws_that_tie_are_shared)
{
    const double values[] = {1, 2, 3, 4, 1, 2, 4, 3};
    ana_ranked standings[2];

    rank(values, 2, 4, standings);

    assert_close(standings[0].best_probability, 0.5, 1e-12);
    assert_close(standings[1].best_probability, 0.5, 1e-12);
}

TEST(a_point_that_sometimes_does_not_fit_comes_last)
{
    const double values[] = {1, 1, INFINITY, 1, 9, 9, 9, 9};
    ana_ranked standings[2];

    rank(values, 2, 4, standings);

    assert_int_equal(standings[0].point, 1);
    assert_close(standings[1].infeasible_ratio, 0.25, 1e-12);
    assert_close(standings[1].best_probability, 0.75, 1e-12);
    assert_true(isinf(standings[1].mean));
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
