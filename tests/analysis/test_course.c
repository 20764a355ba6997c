/// The course of a row: which decisions and splits are kept, and how ranks become steps.
#include "analysis/compare/course.h"
#include "analysis/compare/splits.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

static void only_decisions_that_were_asked_for_are_kept(void **state)
{
    arena *memory = *state;
    ana_course course;
    ana_course_init(&course, memory);
    const bal_training_iteration quiet = {.iteration = 0, .rank_count = 4, .replica_count = 1};
    const bal_training_iteration same = {.iteration = 1,
                                         .rank_count = 4,
                                         .replica_count = 1,
                                         .changed = true,
                                         .was_asked = true,
                                         .reason = BAL_REASON_SAME,
                                         .decision_ns = 5};
    const bal_training_iteration moved = {.iteration = 2,
                                          .rank_count = 4,
                                          .replica_count = 1,
                                          .was_asked = true,
                                          .action = BAL_ACTION_REBALANCE,
                                          .reason = BAL_REASON_CHANGE,
                                          .moved_layer_count = 3,
                                          .decision_ns = 5,
                                          .migration_ns = 7};

    assert_ok(ana_course_add(&course, &quiet));
    assert_ok(ana_course_add(&course, &same));
    assert_ok(ana_course_add(&course, &moved));

    assert_int_equal(course.decision_count, 2);
    assert_int_equal(course.decisions[1].iteration, 2);
    assert_int_equal(course.decisions[1].moved_layer_count, 3);
    assert_int_equal(course.acted_count, 1);
    assert_int_equal(course.changed_count, 1);
    assert_int_equal(course.reason_counts[BAL_REASON_SAME], 1);
    assert_int_equal(course.decision_ns, 10);
    assert_int_equal(course.migration_ns, 7);
    assert_int_equal(course.step_count, 1);
}

static void ranks_become_a_step_where_anything_of_them_changes(void **state)
{
    arena *memory = *state;
    ana_course course;
    ana_course_init(&course, memory);
    const int ranks[] = {8, 8, 6, 6, 6, 8};
    const int replicas[] = {1, 1, 1, 1, 2, 1};

    for (int iteration = 0; iteration < 6; iteration++) {
        const bal_training_iteration played = {.iteration = iteration,
                                               .rank_count = ranks[iteration],
                                               .replica_count = replicas[iteration],
                                               .microbatch_count = 4};
        assert_ok(ana_course_add(&course, &played));
    }

    assert_int_equal(course.step_count, 4);
    assert_int_equal(course.steps[1].from_iteration, 2);
    assert_int_equal(course.steps[1].rank_count, 6);
    assert_int_equal(course.steps[2].from_iteration, 4);
    assert_int_equal(course.steps[2].replica_count, 2);
    assert_int_equal(course.steps[3].rank_count, 8);
}

static void many_decisions_are_counted_beyond_what_is_kept(void **state)
{
    arena *memory = *state;
    ana_course course;
    ana_course_init(&course, memory);

    for (int iteration = 0; iteration < ANA_COURSE_MAX + 3; iteration++) {
        const bal_training_iteration played = {
            .iteration = iteration, .was_asked = true, .reason = BAL_REASON_PERIOD};
        assert_ok(ana_course_add(&course, &played));
    }

    assert_int_equal(course.decision_count, ANA_COURSE_MAX);
    assert_int_equal(course.reason_counts[BAL_REASON_PERIOD], ANA_COURSE_MAX + 3);
    assert_true(course.is_cut);
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
        cmocka_unit_test(only_decisions_that_were_asked_for_are_kept),
        cmocka_unit_test(ranks_become_a_step_where_anything_of_them_changes),
        cmocka_unit_test(many_decisions_are_counted_beyond_what_is_kept),
        cmocka_unit_test(splits_are_kept_where_they_change_and_always_the_last),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
