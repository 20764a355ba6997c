/// Order and Pareto set of the points of a study: against the definition, written out plainly, on
/// seeded random points.
#include "analysis/whatif/standing.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

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

static void the_pareto_set_is_what_nothing_beats(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        rng generator = rng_init(seed, 0);
        arena *memory = arena_create(1 << 14);
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
        arena_destroy(memory);
    }
}

static double objective_of(const ana_point *point, ana_objective objective)
{
    const double values[] = {point->train_ns, point->gpu_hours, point->cost,
                             (double)point->peak_memory_bytes};
    return values[objective];
}

static void points_are_ordered_by_the_objective_other_trainings_behind(void **state)
{
    (void)state;
    for (int objective = 0; objective < ANA_OBJECTIVE_COUNT; objective++) {
        rng generator = rng_init(17, (uint64_t)objective);
        arena *memory = arena_create(1 << 14);
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
        arena_destroy(memory);
    }
}

static void points_that_are_alike_end_where_one_figure_differs(void **state)
{
    arena *memory = *state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pareto_set_is_what_nothing_beats),
        cmocka_unit_test(points_are_ordered_by_the_objective_other_trainings_behind),
        cmocka_unit_test(points_that_are_alike_end_where_one_figure_differs),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
