/// A point taken apart: its parts fit each other, and what cannot be played says why.
#include "analysis/whatif/explanation.h"
#include "tests/assert_close.h"

#define STUDY(training, pipeline, rest)                                                            \
    "{\"schema\":\"dynmo-study/1\",\"model\":\"gpt2\",\"hardware\":\"h100-sxm\",\"training\":{"    \
    "\"microbatches\":8," training "},\"pipeline\":{\"stages\":4," pipeline                        \
    "},\"balancing\":{\"balancer\":\"partition\"}" rest "}"

static void parts_of_a_point_fit_each_other(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int sampled;
        int stages;
    } cases[] = {
        {STUDY("\"iterations\":1", "\"schedule\":\"zb-h1\"", ""), 1, 4},
        {STUDY("\"iterations\":1", "\"schedule\":\"interleaved-1f1b\",\"chunks\":2", ""), 1, 8},
        {STUDY("\"iterations\":40", "\"schedule\":\"1f1b\"",
               ",\"dynamism\":{\"case\":\"freezing\",\"interval\":2}"),
         ANA_EXPLAINED_ITERATIONS, 4},
    };
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        arena *memory = arena_create(1 << 14);
        ana_point_worker *worker = ana_point_worker_create();
        ana_explanation found;
        int64_t work_ns = 0;
        assert_ok(ana_explain(worker, "s", cases[row].text, memory, &found, NULL));

        for (int stage = 0; stage < found.stage_count; stage++) {
            work_ns += found.stage_ns[stage];
        }
        assert_int_equal(found.stage_count, cases[row].stages);
        assert_int_equal(found.first_layer[0], 0);
        assert_int_equal(found.first_layer[found.stage_count], 14);
        assert_true(found.point.bound_ns > 0 && found.point.bound_ns <= found.point.iteration_ns);
        if (cases[row].sampled == 1) {
            assert_int_equal(work_ns, found.causes.busy_ns);
            assert_true((double)found.causes.rank_ns == 4 * found.point.iteration_ns);
        } else {
            assert_int_equal(found.iteration, 40 * 15 / 16);
            assert_true(found.causes.busy_ns < ANA_EXPLAINED_ITERATIONS * found.causes.rank_ns);
        }
        ana_point_worker_destroy(worker);
        arena_destroy(memory);
    }
}

static void what_cannot_be_played_is_not_explained(void **state)
{
    (void)state;
    arena *memory = arena_create(1 << 14);
    ana_point_worker *worker = ana_point_worker_create();
    ana_explanation found;
    error_message err = {0};
    const char *text = STUDY("\"tensor_parallel\":5", "\"schedule\":\"1f1b\"", "");

    assert_int_equal(ana_explain(worker, "s", text, memory, &found, &err), STATUS_INFEASIBLE);

    assert_string_equal(err.message, "tensor 5 does not divide the 12 attention heads");
    ana_point_worker_destroy(worker);
    arena_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_point_fit_each_other),
        cmocka_unit_test(what_cannot_be_played_is_not_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
