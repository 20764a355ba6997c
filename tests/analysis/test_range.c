/// Ranges of uncertain inputs, and the section of a study that declares them.
#include "analysis/whatif/uncertainty.h"
#include "base/rng.h"
#include "tests/assert_close.h"

#include <math.h>
#include <string.h>

static status read_section(const char *text, ana_uncertainty *uncertainty, error_message *err)
{
    json_document *document = NULL;
    assert_ok(json_open_bytes("s.json", text, strlen(text), &document, NULL));
    const status result = ana_uncertainty_read(json_root(document), uncertainty, err);
    json_close(document);
    return result;
}

static void quantiles_are_those_of_the_distribution(void **state)
{
    (void)state;
    const ana_range uniform = {ANA_UNIFORM, false, 2, 6, 0};
    const ana_range logarithmic = {ANA_LOG_UNIFORM, false, 1, 100, 0};
    const ana_range triangle = {ANA_TRIANGULAR, false, 0, 4, 1};
    const ana_range normal = {ANA_NORMAL, false, -1.6448536, 1.6448536, 0};

    assert_close(ana_range_quantile(&uniform, 0.25), 3, 1e-9);
    assert_close(ana_range_quantile(&logarithmic, 0.5), 10, 1e-8);
    assert_close(ana_range_quantile(&triangle, 0.25), 1, 1e-9); // mode: (m - l) / (h - l) below it
    assert_close(ana_range_quantile(&triangle, 1 - 1.0 / 12), 3, 1e-8); // (h - 3)^2 / (w (h - m))
    assert_true(fabs(ana_range_quantile(&normal, 0.5)) < 1e-9);
    assert_close(ana_range_quantile(&normal, 0.95), 1.64, 0.02); // cut tails are shared out
    assert_close(ana_range_quantile(&normal, 0x1p-54), -3.0902, 1e-3);
    for (int distribution = 0; distribution < ANA_DISTRIBUTION_COUNT; distribution++) {
        const ana_range certain = {(ana_distribution)distribution, false, 3, 3, 3};
        assert_close(ana_range_quantile(&certain, 0.2), 3, 1e-12);
    }
}

static void a_section_is_read(void **state)
{
    (void)state;
    ana_uncertainty read = {0};

    assert_ok(read_section("{\"draws\":200,\"seed\":7,\"assumed\":false,\"model_error\":0,"
                           "\"calibration\":\"c.json\",\"ranges\":{"
                           "\"hardware.efficiency.gemm\":[0.5,0.7],"
                           "\"cluster.links.inter.latency_ns\":{\"factor\":[0.5,4]}}}",
                           &read, NULL));

    assert_int_equal(read.draw_count, 200);
    assert_int_equal(read.seed, 7);
    assert_int_equal(read.range_count, 2);
    assert_true(!read.ranges_assumed && read.model_error == 0 && read.calibration != NULL);
    assert_true(read.ranges[0].range.low == 0.5 && read.ranges[0].range.high == 0.7);
    assert_true(read.ranges[1].range.is_factor && read.ranges[1].range.high == 4);

    assert_ok(ana_uncertainty_read((json_value){0}, &read, NULL));
    assert_int_equal(read.draw_count, ANA_DRAWS_DEFAULT);
    assert_int_equal(read.seed, 1);
    assert_true(read.ranges_assumed && read.range_count == 0 && read.calibration == NULL);
}

static void malformed_sections_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"{\"ranges\":{\"training.decision_ns\":[3,2]}}",
         "s.json: ranges.training.decision_ns: low 3 is above high 2"},
        {"{\"ranges\":{\"training.decision_ns\":[3]}}",
         "s.json: ranges.training.decision_ns: needs [low, high]"},
        {"{\"ranges\":{\"training.decision_ns\":5}}",
         "s.json: ranges.training.decision_ns: needs [low, high]"},
        {"{\"ranges\":{\"training.decision_ns\":{\"facto\":[1,2]}}}",
         "s.json: ranges.training.decision_ns: unknown key 'facto'; did you mean 'factor'?"},
        {"{\"ranges\":{\"training.decision_ns\":{\"log\":[0,2]}}}",
         "s.json: ranges.training.decision_ns.log[0]: 0 is outside [1e-18, 1e+18]"},
        {"{\"ranges\":{\"training.decision_ns\":{\"factor\":[-1,2]}}}",
         "s.json: ranges.training.decision_ns.factor[0]: -1 is outside [0, 1e+18]"},
        {"{\"ranges\":{\"trainign.decision_ns\":[1,2]}}",
         "s.json: ranges.trainign.decision_ns: 'trainign.decision_ns' names nothing in a study; "
         "did you mean 'training.decision_ns'?"},
        {"{\"ranges\":[1]}", "s.json: ranges: needs an object of at most 64 paths"},
        {"{\"drows\":1}", "s.json: unknown key 'drows'; did you mean 'draws'?"},
        {"{\"draws\":1000000000}", "s.json: draws: 1000000000 is outside [0, 10000]"},
        {"{\"draws\":5}", "5 draws are neither 0 (no error bars) nor in [20, 10000]"},
        {"{\"model_error\":0.3}", "s.json: model_error: 0.3 is outside [0, 0.25]"},
    };
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        ana_uncertainty read = {.draw_count = -7};
        error_message err = {0};
        assert_true(read_section(cases[row].text, &read, &err) != STATUS_OK);
        assert_string_equal(err.message, cases[row].message);
        assert_int_equal(read.draw_count, -7);
    }
}

static void long_runs_are_drawn_less_unless_told(void **state)
{
    (void)state;
    ana_uncertainty free_choice = {.draw_count = 128, .point_count = 32};
    ana_uncertainty short_runs = free_choice;
    ana_uncertainty told = {.draw_count = 128, .point_count = 32, .draws_are_given = true};

    ana_uncertainty_limit(&short_runs, 1);
    ana_uncertainty_limit(&free_choice, 1000000);
    ana_uncertainty_limit(&told, 1000000);

    assert_int_equal(short_runs.point_count, 32);
    assert_int_equal(free_choice.point_count, 8);
    assert_int_equal(free_choice.draw_count, 64);
    assert_int_equal(told.draw_count, 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_distribution),
        cmocka_unit_test(a_section_is_read),
        cmocka_unit_test(malformed_sections_are_refused_by_name),
        cmocka_unit_test(long_runs_are_drawn_less_unless_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
