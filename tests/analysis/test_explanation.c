/// The explanation of a study's row: its parts fit each other, and the iteration it chose is the
/// median one. Costs come from shipped models.
#include "analysis/whatif/explanation.h"
#include "tests/assert_close.h"

#include <string.h>

typedef struct fixture {
    arena *memory;
    ana_study study;
    ana_setup setup;
} fixture;

static void open_fixture(fixture *opened, const char *text)
{
    error_message err = {0};
    opened->memory = arena_create(1 << 16);
    if (ana_study_open_text("study", text, opened->memory, &opened->study, &err) != STATUS_OK ||
        ana_setup_open(&opened->study, opened->memory, &opened->setup, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
}

static void close_fixture(fixture *opened)
{
    ana_setup_close(&opened->setup);
    ana_study_close(&opened->study);
    arena_destroy(opened->memory);
}

#define STUDY(training, pipeline, rest)                                                            \
    "{\"schema\":\"dynmo-study/1\",\"model\":\"gpt2\",\"hardware\":\"h100-sxm\",\"training\":{"    \
    "\"microbatches\":8," training "},\"pipeline\":{\"stages\":4," pipeline "}" rest "}"

static ana_explanation explain(const fixture *given, int row)
{
    ana_explanation explanation;
    error_message err = {0};
    const ana_worth worth = {.iteration_count = 1000, .gpu_count = 4};
    if (ana_explain(&given->setup, &given->study.balancings[row], &worth, given->memory,
                    &explanation, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }
    return explanation;
}

static void parts_of_a_static_run_fit_each_other(void **state)
{
    (void)state;
    fixture given;
    open_fixture(&given, STUDY("\"iterations\":1", "\"schedule\":\"zb-h1\"", ""));

    const ana_explanation explanation = explain(&given, 0);

    int64_t path_ns = 0;
    int64_t work_ns = 0;
    for (int stage = 0; stage < 4; stage++) {
        for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
            path_ns += explanation.path.op_ns[stage][kind];
        }
        path_ns += explanation.path.forward_link_ns[stage];
        path_ns += explanation.path.backward_link_ns[stage];
        work_ns += explanation.stage_ns[stage];
    }
    assert_int_equal(path_ns, explanation.pipeline_ns);
    assert_int_equal(work_ns, explanation.causes.busy_ns);
    assert_int_equal(explanation.first_layer[0], 0);
    assert_int_equal(explanation.first_layer[4], given.setup.source.layer_count);
    assert_in_range(explanation.plan_bound_ns, 1, explanation.pipeline_ns);
    assert_in_range(explanation.any_bound_ns, 1, explanation.plan_bound_ns);
    assert_int_equal(explanation.causes.rank_ns, 4 * explanation.iteration_ns);
    close_fixture(&given);
}

/// The iteration explained lies in the middle of the run's lengths.
static void the_median_iteration_of_a_dynamic_run_is_explained(void **state)
{
    (void)state;
    fixture given;
    open_fixture(
        &given,
        STUDY("\"iterations\":40", "\"schedule\":\"1f1b\"",
              ",\"dynamism\":{\"case\":\"freezing\",\"schedule\":\"interval\",\"interval\":2}"));

    const ana_explanation explanation = explain(&given, 0);

    assert_true(explanation.iteration_min_ns < explanation.iteration_max_ns);
    assert_in_range(explanation.iteration_ns, explanation.iteration_min_ns,
                    explanation.iteration_max_ns);
    assert_in_range(explanation.iteration, 1, 38);
    assert_int_equal(explanation.path.op_ns[0][OP_BACKWARD_INPUT], 0);
    close_fixture(&given);
}

static void chunks_have_no_bound_over_all_plans(void **state)
{
    (void)state;
    fixture given;
    open_fixture(&given,
                 STUDY("\"iterations\":1", "\"schedule\":\"interleaved-1f1b\",\"chunks\":2", ""));

    const ana_explanation explanation = explain(&given, 0);

    assert_int_equal(explanation.stage_count, 8);
    assert_int_equal(explanation.any_bound_ns, 0);
    assert_in_range(explanation.plan_bound_ns, 1, explanation.pipeline_ns);
    close_fixture(&given);
}

static void a_balancer_without_stages_has_nothing_to_explain(void **state)
{
    (void)state;
    fixture given;
    ana_explanation explanation;
    error_message err = {0};
    const ana_worth worth = {0};
    open_fixture(&given, STUDY("\"iterations\":1", "\"schedule\":\"1f1b\"",
                               ",\"balancing\":[{\"balancer\":\"diffusion-published\"}]"));

    assert_int_equal(ana_explain(&given.setup, &given.study.balancings[0], &worth, given.memory,
                                 &explanation, &err),
                     STATUS_INVALID);

    assert_string_equal(
        err.message, "diffusion-published has owners of layers and no stages: nothing to explain");
    close_fixture(&given);
}

/// Both outputs hold the sums that a reader would check.
static void outputs_name_bounds_causes_stages_and_inputs(void **state)
{
    (void)state;
    fixture given;
    text_buffer table = {0};
    text_buffer json = {0};
    json_document *document = NULL;
    open_fixture(&given, STUDY("\"iterations\":1", "\"schedule\":\"zb-h1\"", ""));
    const ana_explanation explanation = explain(&given, 0);

    ana_explanation_print(&explanation, &table);
    ana_explanation_write(&explanation, &json);

    assert_non_null(strstr(table.bytes, "this plan, whatever the order of its ops"));
    assert_non_null(strstr(table.bytes, "warm-up and cool-down"));
    assert_non_null(strstr(table.bytes, "assumed"));
    assert_ok(json_open_bytes("json", json.bytes, json.length, &document, NULL));
    assert_int_equal(json_count(json_member(json_root(document), "stages")), 4);
    json_close(document);
    text_free(&table);
    text_free(&json);
    close_fixture(&given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_a_static_run_fit_each_other),
        cmocka_unit_test(the_median_iteration_of_a_dynamic_run_is_explained),
        cmocka_unit_test(chunks_have_no_bound_over_all_plans),
        cmocka_unit_test(a_balancer_without_stages_has_nothing_to_explain),
        cmocka_unit_test(outputs_name_bounds_causes_stages_and_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
