/// The claims about balancing: what the program finds, against searches written here as plainly as
/// the definitions.
#include "analysis/converge/verdict/verdict.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <string.h>

enum { LAYERS_MAX = 64 };

static ana_verdict verdict_of(const char *name, const ana_verdict_options *options)
{
    for (int index = 0; ana_claim_at(index) != NULL; index++) {
        if (strcmp(ana_claim_at(index)->name, name) != 0) continue;
        ana_verdict verdict = {0};
        if (ana_claim_try(ana_claim_at(index), options, memory, &verdict, &why) != STATUS_OK) {
            fail_msg("%s: %s", name, why.message);
        }
        return verdict;
    }
    fail_msg("no claim '%s'", name);
    return (ana_verdict){0};
}

TEST(the_search_shows_every_instance_once)
{
    const ana_search_box box = {.stage_min = 2,
                                .stage_max = 3,
                                .layer_min = 1,
                                .layer_max = 4,
                                .weight_min = 0,
                                .weight_max = 2,
                                .has_starts = true};
    // 3^L weights, and L + 1 starts on two stages, (L + 1)(L + 2) / 2 on three.
    int64_t expected = 0;
    int64_t weights = 1;
    for (int layers = 1; layers <= 4; layers++) {
        weights *= 3;
        expected += weights * (layers + 1) + weights * (layers + 1) * (layers + 2) / 2;
    }
    ana_search search;
    ana_search_begin(&search, &box);
    int64_t layers_shown = 0;
    int64_t shown = 0;
    while (ana_search_next(&search)) {
        assert_int_equal(search.first_layer[0], 0);
        assert_int_equal(search.first_layer[search.instance.stage_count],
                         search.instance.layer_count);
        layers_shown += search.is_new ? 1 : 0;
        shown++;
    }
    assert_int_equal(shown, expected);
    assert_int_equal(layers_shown, 2 * (3 + 9 + 27 + 81));
}

/// Whether the plans of three stages with the smallest difference all miss the smallest maximum,
/// by the definition.
static bool breaks_lemma_1(const int64_t *weight, int layers)
{
    int64_t least_range = INT64_MAX;
    int64_t least_max = INT64_MAX;
    int64_t max_of_range = 0;
    for (int one = 1; one < layers - 1; one++) {
        for (int two = one + 1; two < layers; two++) {
            int64_t load[3] = {0};
            for (int layer = 0; layer < layers; layer++) {
                load[layer < one ? 0 : layer < two ? 1 : 2] += weight[layer];
            }
            int64_t max = load[0] > load[1] ? load[0] : load[1];
            int64_t min = load[0] < load[1] ? load[0] : load[1];
            if (load[2] > max) max = load[2];
            if (load[2] < min) min = load[2];
            if (max < least_max) least_max = max;
            if (max - min > least_range) continue;
            if (max - min < least_range || max < max_of_range) max_of_range = max;
            least_range = max - min;
        }
    }
    return max_of_range > least_max;
}

TEST(lemma_1_breaks_first_where_a_plain_search_finds_it)
{
    const ana_verdict_options options = ana_verdict_options_default();

    const ana_verdict verdict = verdict_of("lemma-1", &options);

    assert_int_equal(ana_verdict_answer(&verdict), ANA_ANSWER_CONDITIONS);
    assert_int_equal(verdict.cases[0].violation_count, 0);
    const ana_layer_instance *found = &verdict.cases[1].example;
    assert_int_equal(found->stage_count, 3);
    assert_int_equal(found->layer_count, 4);
    assert_true(breaks_lemma_1(found->weight, 4));
    for (int code = 0; code < 5 * 5 * 5 * 5; code++) { // none with weights up to 5
        const int64_t weight[] = {code % 5 + 1, code / 5 % 5 + 1, code / 25 % 5 + 1,
                                  code / 125 + 1};
        assert_false(breaks_lemma_1(weight, 4));
        assert_false(breaks_lemma_1(weight, 3));
    }
    const int64_t published[] = {1, 6, 2, 1, 3};
    assert_true(breaks_lemma_1(published, 5));
}

/// [P P | 1 x P | ... | 1 x P]: no transfer lowers the variance, though all loads could be P + 1.
TEST(algorithm_3_keeps_its_guarantee_with_equality_on_the_tight_family)
{
    for (int stages = 2; stages <= ANA_SEARCH_STAGES_MAX; stages++) {
        int64_t weight[LAYERS_MAX];
        int first[ANA_SEARCH_STAGES_MAX + 1] = {0};
        const int layers = 2 + stages * (stages - 1);
        for (int layer = 0; layer < layers; layer++) {
            weight[layer] = layer < 2 ? stages : 1;
        }
        for (int stage = 1; stage <= stages; stage++) {
            first[stage] = 2 + stages * (stage - 1);
        }
        const ana_layer_instance instance = {
            .layer_count = layers, .stage_count = stages, .weight = weight, .first_layer = first};
        bal_answer settled = {0};
        assert_ok(ana_instance_balance("diffusion-published", &instance, memory, &settled, NULL));
        const int64_t best = stages + 1; // P and 1 on two ranks, P + 1 ones on each of the others

        assert_int_equal(settled.bottleneck_ns * (stages + 1), best * 2 * stages);
        assert_int_equal(settled.transfer_count, 0);
        assert_int_equal((int64_t)ana_phi(settled.stage_load, stages), stages * (stages - 1));
    }
}

/// What every claim answers, and that what it calls a violation is one.
TEST(every_claim_has_the_answer_that_theory_gives)
{
    static const struct {
        const char *name;
        ana_answer answer;
    } expected[] = {
        {"lemma-1", ANA_ANSWER_CONDITIONS},        {"lemma-2-potential", ANA_ANSWER_CONDITIONS},
        {"lemma-2-rounds", ANA_ANSWER_CONDITIONS}, {"termination", ANA_ANSWER_HOLDS},
        {"guarantee", ANA_ANSWER_CONDITIONS},      {"released-code", ANA_ANSWER_FAILS},
        {"theorem-r", ANA_ANSWER_HOLDS},
    };
    const ana_verdict_options options = {.seed = 2, .run_count = 60};
    for (size_t index = 0; index < sizeof expected / sizeof expected[0]; index++) {
        arena_reset(memory);
        const ana_verdict verdict = verdict_of(expected[index].name, &options);
        assert_int_equal(ana_verdict_answer(&verdict), expected[index].answer);
        for (int tried = 0; tried < verdict.case_count; tried++) {
            assert_true(verdict.cases[tried].examined > 0);
            assert_non_null(verdict.cases[tried].searched);
            assert_int_equal(verdict.cases[tried].violation_count > 0,
                             verdict.cases[tried].first_violation != NULL);
        }
    }
}

/// A best assignment is one of the definition's: [ | 0 1 1] may have its loads on two ranks.
TEST(the_counterexample_to_the_guarantee_breaks_it)
{
    const ana_verdict_options options = ana_verdict_options_default();

    const ana_verdict verdict = verdict_of("guarantee", &options);

    const ana_layer_instance *example = &verdict.cases[1].example;
    bal_answer settled = {0};
    assert_ok(ana_instance_balance("diffusion-published", example, memory, &settled, NULL));
    assert_int_equal(example->stage_count, 2);
    assert_int_equal(example->layer_count, 3);
    assert_int_equal(ana_instance_best(example).largest, 1);
    assert_true(ana_instance_best(example).phi == 0);
    assert_true(settled.bottleneck_ns * 3 > 4);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
