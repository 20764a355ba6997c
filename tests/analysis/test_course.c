/// The course of a row: which decisions and splits are kept, and how ranks become steps.
#include "analysis/compare/course.h"
#include "analysis/compare/splits.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

/// Iterations of 8, 8, 6, 6, 6 and 8 ranks, of which one has two replicas; the second and every
/// later one ask for a decision, and the last of them moves.
static void decisions_are_counted_and_ranks_become_steps(void **state)
{
    static const int ranks[] = {8, 8, 6, 6, 6, 8};
    ana_course course;
    ana_course_init(&course, *state);
    for (int iteration = 0; iteration < 6; iteration++) {
        const bool moves = iteration == 5;
        const bal_training_iteration played = {
            .iteration = iteration,
            .iteration_ns = 60 - iteration,
            .rank_count = ranks[iteration],
            .replica_count = iteration == 4 ? 2 : 1,
            .microbatch_count = 4,
            .was_asked = iteration > 0,
            .action = moves ? BAL_ACTION_REBALANCE : BAL_ACTION_KEEP,
            .reason = moves ? BAL_REASON_CHANGE : BAL_REASON_SAME,
            .moved_layer_count = moves ? 3 : 0,
            .decision_ns = 5,
            .migration_ns = moves ? 7 : 0};
        ana_course_add(&course, &played);
    }

    assert_int_equal(course.asked_count, 5);
    assert_int_equal(course.reason_counts[BAL_REASON_SAME], 4);
    assert_int_equal(course.acted_count, 1);
    assert_int_equal(course.move_count, 1);
    assert_int_equal(course.moves[0].iteration, 5);
    assert_int_equal(course.moves[0].moved_layer_count, 3);
    assert_int_equal(course.decision_ns, 25);
    assert_int_equal(course.migration_ns, 7);
    assert_int_equal(course.step_count, 4);
    assert_int_equal(course.steps[1].from_iteration, 2);
    assert_int_equal(course.steps[1].rank_count, 6);
    assert_int_equal(course.steps[2].from_iteration, 4);
    assert_int_equal(course.steps[2].replica_count, 2);
    assert_int_equal(course.steps[3].rank_count, 8);
    assert_int_equal(ana_course_quantile_ns(&course, 0.5), 57); // 55 56 57 | 58 59 60
    assert_int_equal(ana_course_quantile_ns(&course, 1), 60);
}

static void many_moves_and_lengths_are_counted_beyond_what_is_kept(void **state)
{
    ana_course course;
    ana_course_init(&course, *state);
    for (int iteration = 0; iteration < 2 * ANA_COURSE_MAX + 4; iteration++) {
        const bal_training_iteration played = {.iteration = iteration,
                                               .iteration_ns = iteration,
                                               .was_asked = true,
                                               .action = BAL_ACTION_REBALANCE,
                                               .reason = BAL_REASON_PERIOD};
        ana_course_add(&course, &played);
    }

    assert_int_equal(course.move_count, ANA_COURSE_MAX);
    assert_int_equal(course.acted_count, 2 * ANA_COURSE_MAX + 4);
    assert_int_equal(course.iteration_stride, 4);
    assert_int_equal(course.iteration_ns[course.iteration_kept_count - 1], 2 * ANA_COURSE_MAX);
    assert_int_equal(ana_course_quantile_ns(&course, 0.5), ANA_COURSE_MAX);
}

static void splits_are_kept_where_they_change_and_always_the_last(void **state)
{
    ana_splits splits;
    ana_splits_init(&splits, 2, *state);
    for (int iteration = 0; iteration < 4 * ANA_SPLITS_MAX; iteration++) {
        // Every second iteration another split of four stages; at the end two, of one rank.
        const bool is_last = iteration == 4 * ANA_SPLITS_MAX - 1;
        const int first_layer[] = {0, 1, 2 + iteration / 2, 3000, 4000};
        const bal_training_iteration played = {
            .iteration = iteration, .rank_count = is_last ? 1 : 2, .first_layer = first_layer};
        ana_splits_add(&splits, &played);
    }
    const bal_training_iteration without_stages = {.iteration = 9999, .rank_count = 2};
    ana_splits_add(&splits, &without_stages);

    assert_int_equal(splits.step_count, ANA_SPLITS_MAX);
    assert_int_equal(splits.change_count, 2 * ANA_SPLITS_MAX);
    for (int step = 0; step < ANA_SPLITS_MAX - 1; step++) {
        assert_int_equal(splits.steps[step].from_iteration, 2 * step);
        assert_int_equal(splits.steps[step].stage_count, 4);
        assert_int_equal(splits.steps[step].first_layer[2], 2 + step);
    }
    const ana_split_step *last = &splits.steps[ANA_SPLITS_MAX - 1];
    assert_int_equal(last->from_iteration, 4 * ANA_SPLITS_MAX - 1);
    assert_int_equal(last->stage_count, 2);
    assert_int_equal(last->first_layer[2], 2 + (4 * ANA_SPLITS_MAX - 1) / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_counted_and_ranks_become_steps),
        cmocka_unit_test(many_moves_and_lengths_are_counted_beyond_what_is_kept),
        cmocka_unit_test(splits_are_kept_where_they_change_and_always_the_last),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
