/// The recipe for Slurm: which nodes go back, when and under which names of ranks, and what cannot
/// be given back. What the script does is tested where it is run, in tests/cli/slurm_shrink.sh.
#include "analysis/export/slurm_shrink.h"
#include "tests/assert_close.h"

#include <string.h>

enum { RANKS = 4, STEPS_MAX = 4 };

static const int first_layer[] = {0, 1, 2, 3, 4};
static const int all_ranks[] = {0, 1, 2, 3};

/// A plan of the first ranks of a list; cuts do not matter.
static ana_plan_step step_of(int from_iteration, const int *ranks, int rank_count)
{
    return (ana_plan_step){.from_iteration = from_iteration,
                           .plan = {.first_layer = first_layer,
                                    .rank_count = rank_count,
                                    .chunk_count = 1,
                                    .schedule = "1f1b",
                                    .microbatch_count = 2,
                                    .stage_ranks = ranks,
                                    .data_parallel = 1}};
}

static ana_slurm_shrink pairs(const ana_plan_step *steps, int step_count)
{
    return (ana_slurm_shrink){.manager = "slurm-shrink",
                              .origin = "the row",
                              .steps = steps,
                              .step_count = step_count,
                              .end_iteration = 100,
                              .gpus_per_rank = 1,
                              .gpus_per_node = 2};
}

static void assert_says(const ana_slurm_shrink *shrink, const char *const *pieces, int count)
{
    arena *memory = arena_create(1 << 12);
    text_buffer out = {0};
    error_message err = {0};
    if (ana_slurm_shrink_write(shrink, memory, &out, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    for (int piece = 0; piece < count; piece++) {
        if (strstr(out.bytes, pieces[piece]) == NULL) {
            fail_msg("no '%s' in:\n%s", pieces[piece], out.bytes);
        }
    }
    text_free(&out);
    arena_destroy(memory);
}

static void assert_refused(const ana_slurm_shrink *shrink, status code, const char *message)
{
    arena *memory = arena_create(1 << 12);
    text_buffer out = {0};
    error_message err = {0};
    assert_int_equal(ana_slurm_shrink_write(shrink, memory, &out, &err), code);
    assert_string_equal(err.message, message);
    assert_int_equal(out.length, 0);
    arena_destroy(memory);
}

static void ranks_are_numbered_anew_without_the_node_that_went_back(void **state)
{
    (void)state;
    const int on_six[] = {0, 1, 2, 3, 4, 5};
    const int first_and_last[] = {5, 0, 1, 4}; // node 1, ranks 2 and 3, is free
    const int cuts[] = {0, 1, 2, 3, 4, 5, 6};
    ana_plan_step steps[] = {step_of(0, on_six, 6), step_of(40, first_and_last, 4)};
    steps[0].plan.first_layer = cuts;
    const ana_slurm_shrink shrink = pairs(steps, 2);
    const char *const pieces[] = {
        "#   iterations 0 to 39: 3 nodes, 6 tasks\n",
        "#   iterations 40 to 99: 2 nodes, 4 tasks, without node 1\n",
        "train 0 40 3 \"$(names 0-2)\" 6 \"$@\" <<'END'\n",
        "keep 0 2\ntrain 40 100 2 \"$(names 0 2)\" 4 \"$@\" <<'END'\n",
        "\"stage_ranks\":[3,0,1,2]",
    };

    assert_says(&shrink, pieces, 5);
}

static void a_node_that_is_needed_again_stays(void **state)
{
    (void)state;
    const ana_plan_step steps[] = {
        step_of(0, all_ranks, 4),
        step_of(10, all_ranks, 2), // node 1 is idle for a while
        step_of(20, all_ranks, 4),
        step_of(30, all_ranks, 2),
    };
    const ana_slurm_shrink shrink = pairs(steps, 4);
    const char *const pieces[] = {
        "#   iterations 0 to 29: 2 nodes, 4 tasks\n",
        "#   iterations 30 to 99: 1 nodes, 2 tasks, without node 1\n",
        "keep 0\ntrain 30 100 1 \"$(names 0)\" 2 ",
    };

    assert_says(&shrink, pieces, 3);
}

static void the_batch_script_keeps_its_node_without_tasks(void **state)
{
    (void)state;
    const int on_six[] = {0, 1, 2, 3, 4, 5};
    const int cuts[] = {0, 1, 2, 3, 4, 5, 6};
    ana_plan_step steps[] = {step_of(0, on_six, 6), step_of(40, &on_six[2], 2)};
    steps[0].plan.first_layer = cuts;
    const ana_slurm_shrink shrink = pairs(steps, 2);
    const char *const pieces[] = {
        "40 to 99: 2 nodes, 2 tasks, without node 2\n",
        "keep 0-1\ntrain 40 100 1 \"$(names 1)\" 2 ",
    };

    assert_says(&shrink, pieces, 2);
}

static void replicas_and_gpus_of_a_rank_count(void **state)
{
    (void)state;
    ana_plan_step steps[] = {step_of(0, all_ranks, 4), step_of(40, all_ranks, 2)};
    steps[0].plan.data_parallel = 2;
    steps[1].plan.data_parallel = 2;
    ana_slurm_shrink shrink = pairs(steps, 2);
    shrink.gpus_per_rank = 2;
    shrink.gpus_per_node = 4; // two ranks: nodes 0 and 1 of replica 0, 2 and 3 of replica 1
    const char *const pieces[] = {
        "# Of the row: 2 x 4 ranks of 2 GPUs on 4 nodes of 4.\n",
        "40 to 99: 2 nodes, 8 tasks, without nodes 1, 3\n",
        "keep 0 2\ntrain 40 100 2 \"$(names 0 2)\" 8 ",
        "--ntasks-per-node=4",
    };

    assert_says(&shrink, pieces, 4);
}

static void what_slurm_cannot_take_is_refused(void **state)
{
    (void)state;
    const int without_last[] = {0, 1, 2};
    const int outside[] = {0, 4};
    ana_plan_step steps[] = {step_of(0, all_ranks, 4), step_of(40, all_ranks, 4)};
    ana_slurm_shrink shrink = pairs(steps, 2);
    assert_refused(&shrink, STATUS_INVALID,
                   "the row releases no ranks: there is nothing to give back");

    steps[1] = step_of(40, without_last, 3);
    assert_refused(&shrink, STATUS_INVALID,
                   "the row releases ranks, but of its 2 nodes of 2 GPUs none for good: only "
                   "whole nodes go back; \"repack\": {\"unit\": \"node\"} releases such");

    shrink.gpus_per_node = 4;
    assert_refused(&shrink, STATUS_INVALID,
                   "the row is on one node of 4 GPUs, which is needed until the end");

    shrink.gpus_per_node = 2;
    steps[1] = step_of(40, all_ranks, 1);
    assert_refused(&shrink, STATUS_INVALID,
                   "the row uses 1 of the 2 GPUs of node 0 from iteration 40 on, when nodes go "
                   "back: \"repack\": {\"unit\": \"node\"} releases whole nodes only");

    steps[1] = step_of(40, outside, 2);
    assert_refused(&shrink, STATUS_FORMAT,
                   "the row has rank 4 in the plan of iteration 40, and 4 ranks at the start");

    steps[1] = step_of(40, all_ranks, 2);
    steps[1].plan.data_parallel = 2;
    assert_refused(&shrink, STATUS_INVALID,
                   "the row makes 2 replicas of 1 with the ranks that it releases at iteration 40: "
                   "no node is given back");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_are_numbered_anew_without_the_node_that_went_back),
        cmocka_unit_test(a_node_that_is_needed_again_stays),
        cmocka_unit_test(the_batch_script_keeps_its_node_without_tasks),
        cmocka_unit_test(replicas_and_gpus_of_a_rank_count),
        cmocka_unit_test(what_slurm_cannot_take_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
