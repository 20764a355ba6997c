/// The verdict about layers of the user's own: loads worked out by hand, and every way to be wrong.
#include "analysis/converge/verdict/load_verdict.h"
#include "tests/assert_close.h"

#include <string.h>

static const int64_t nothing[64];
static arena *memory; // of all tests

static bal_problem problem_of(const int64_t *weight, int layer_count, int stage_count)
{
    return (bal_problem){.layers = {.layer_count = layer_count,
                                    .microbatch_count = 1,
                                    .forward_ns = weight,
                                    .backward_input_ns = nothing,
                                    .backward_weight_ns = nothing},
                         .stage_count = stage_count};
}

static ana_load_verdict verdict_of(const bal_problem *problem)
{
    ana_load_verdict verdict = {0};
    error_message err = {0};
    if (ana_load_verdict_of(problem, 0, memory, &verdict, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    return verdict;
}

static ana_load_answer answer_to(const ana_load_verdict *verdict, const char *name)
{
    for (int claim = 0; claim < ANA_LOAD_CLAIMS; claim++) {
        if (strcmp(verdict->claims[claim].name, name) == 0) return verdict->claims[claim].answer;
    }
    fail_msg("no claim '%s'", name);
    return ANA_LOAD_UNDECIDED;
}

static const ana_load_row *row_of(const ana_load_verdict *verdict, const char *name)
{
    for (int row = 0; row < verdict->row_count; row++) {
        if (strcmp(verdict->rows[row].balancer, name) == 0) return &verdict->rows[row];
    }
    fail_msg("no row '%s'", name);
    return NULL;
}

static void the_tight_family_meets_its_guarantee_and_breaks_lemma_2(void **state)
{
    (void)state;
    const int64_t weight[] = {3, 3, 1, 1, 1, 1, 1, 1};
    const int start[] = {0, 2, 5, 8};
    bal_problem problem = problem_of(weight, 8, 3);
    problem.current_first_layer = start;

    const ana_load_verdict verdict = verdict_of(&problem);

    const ana_load_row *published = row_of(&verdict, "diffusion-published");
    assert_int_equal(published->load_max_ns, 6);
    assert_int_equal(published->transfer_count, 0);
    assert_int_equal(published->iteration_count, 1);
    assert_close(published->phi, 6, 0);
    assert_close(published->assignment_ratio, 1.5, 0);
    assert_close(published->contiguous_ratio, 1.2, 0);
    assert_close(verdict.gamma_ns, 4, 0);
    assert_int_equal(verdict.contiguous_optimum_ns, 5);
    assert_int_equal(verdict.assignment_low_ns, 4);
    assert_int_equal(verdict.assignment_high_ns, 4);
    assert_int_equal(answer_to(&verdict, "lemma-2"), ANA_LOAD_FAILS);
    assert_int_equal(answer_to(&verdict, "termination"), ANA_LOAD_HOLDS);
    assert_int_equal(answer_to(&verdict, "guarantee"), ANA_LOAD_HOLDS);
    assert_false(verdict.starts_even);
}

static void lemma_1_is_judged_on_the_layers_given(void **state)
{
    (void)state;
    const int64_t breaks[] = {1, 6, 3, 3};
    const int64_t keeps[] = {2, 2, 2, 2, 2, 2};
    const bal_problem breaking = problem_of(breaks, 4, 3);
    const bal_problem keeping = problem_of(keeps, 6, 3);

    const ana_load_verdict broken = verdict_of(&breaking);
    const ana_load_verdict kept = verdict_of(&keeping);

    assert_int_equal(answer_to(&broken, "lemma-1"), ANA_LOAD_FAILS);
    assert_string_equal(broken.claims[0].text,
                        "the smallest (max - min) of any contiguous plan is 4 ns, with a largest "
                        "stage of 7 ns; the smallest largest stage is 6 ns");
    assert_int_equal(answer_to(&kept, "lemma-1"), ANA_LOAD_HOLDS);
    assert_int_equal(answer_to(&kept, "lemma-2"), ANA_LOAD_HOLDS);
}

static void a_layer_without_weight_takes_the_guarantee_away(void **state)
{
    (void)state;
    const int64_t weight[] = {0, 1, 1, 1, 1, 1, 1, 0, 0};
    const int start[] = {0, 7, 8, 9};
    bal_problem problem = problem_of(weight, 9, 3);
    problem.current_first_layer = start;

    const ana_load_verdict verdict = verdict_of(&problem);

    assert_int_equal(verdict.zero_layer_count, 3);
    assert_int_equal(row_of(&verdict, "diffusion-published")->load_max_ns, 6);
    assert_int_equal(verdict.assignment_high_ns, 2);
    assert_int_equal(answer_to(&verdict, "guarantee"), ANA_LOAD_NOT_PROMISED);
    assert_string_equal(verdict.claims[3].text,
                        "largest load 3 times the lower bound of any assignment, 2 - 2/(P+1) = "
                        "1.5; not promised: 3 layers without weight, no caps, ranks equal");
}

static void caps_and_slow_ranks_leave_open_what_they_leave_open(void **state)
{
    (void)state;
    const int64_t weight[] = {1, 2, 2, 2, 1, 1};
    const int64_t bytes[] = {2, 0, 0, 0, 2, 2};
    const int64_t caps[] = {3, 3, 3};
    const int64_t factors[] = {1000000000, 1000000000, 2000000000};
    const int start[] = {0, 4, 5, 6};
    bal_problem capped = problem_of(weight, 6, 3);
    capped.current_first_layer = start;
    capped.layers.state_bytes = bytes;
    capped.stage_memory_bytes = caps;
    bal_problem slow = problem_of(weight, 6, 3);
    slow.stage_time_factor_ppb = factors;

    const ana_load_verdict under_caps = verdict_of(&capped);
    const ana_load_verdict unequal = verdict_of(&slow);

    assert_true(under_caps.has_caps);
    assert_int_equal(row_of(&under_caps, "diffusion-published")->load_max_ns, 7);
    assert_int_equal(answer_to(&under_caps, "guarantee"), ANA_LOAD_UNDECIDED);
    assert_int_equal(answer_to(&under_caps, "lemma-1"), ANA_LOAD_UNDECIDED);
    assert_false(unequal.has_equal_ranks);
    assert_int_equal(unequal.assignment_high_ns, -1);
    assert_int_equal(answer_to(&unequal, "lemma-1"), ANA_LOAD_UNDECIDED);
}

static void balancers_that_refuse_say_why_and_the_others_are_judged_by_time(void **state)
{
    (void)state;
    const int64_t weight[] = {9, 1, 1, 1};
    const int64_t parameters[] = {1, 1, 1, 1};
    const bal_problem without = problem_of(weight, 4, 2);
    bal_problem with = without;
    with.layers.parameters = parameters;

    const ana_load_verdict refused = verdict_of(&without);
    const ana_load_verdict judged = verdict_of(&with);

    assert_string_equal(row_of(&refused, "makespan")->refusal, "needs a schedule to play");
    assert_non_null(row_of(&refused, "parameters")->refusal);
    assert_null(row_of(&judged, "parameters")->refusal);
    assert_int_equal(row_of(&judged, "parameters")->load_max_ns, 10);
    assert_int_equal(row_of(&judged, "partition")->load_max_ns, 9);
}

static void layers_that_cannot_be_split_or_take_no_time_are_refused(void **state)
{
    (void)state;
    const int64_t weight[] = {1, 2};
    ana_load_verdict verdict = {.layer_count = -7};
    error_message err = {0};
    const bal_problem narrow = problem_of(weight, 2, 3);
    const bal_problem idle = problem_of(nothing, 2, 2);

    assert_int_equal(ana_load_verdict_of(&narrow, 0, memory, &verdict, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "3"));
    assert_int_equal(ana_load_verdict_of(&idle, 0, memory, &verdict, &err), STATUS_INVALID);
    assert_string_equal(err.message, "the layers take no time at all: nothing to balance");
    assert_int_equal(verdict.layer_count, -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tight_family_meets_its_guarantee_and_breaks_lemma_2),
        cmocka_unit_test(lemma_1_is_judged_on_the_layers_given),
        cmocka_unit_test(a_layer_without_weight_takes_the_guarantee_away),
        cmocka_unit_test(caps_and_slow_ranks_leave_open_what_they_leave_open),
        cmocka_unit_test(balancers_that_refuse_say_why_and_the_others_are_judged_by_time),
        cmocka_unit_test(layers_that_cannot_be_split_or_take_no_time_are_refused),
    };
    memory = arena_create(1 << 16);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_destroy(memory);
    return failed;
}
