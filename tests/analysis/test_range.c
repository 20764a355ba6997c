/// Ranges of uncertain inputs, and the section of a study that declares them.
#include "analysis/whatif/range.h"
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
}

static void a_range_without_width_is_certain(void **state)
{
    (void)state;
    for (int distribution = 0; distribution < ANA_DISTRIBUTION_COUNT; distribution++) {
        const ana_range range = {(ana_distribution)distribution, false, 3, 3, 3};
        assert_close(ana_range_quantile(&range, 0.2), 3, 1e-12);
        assert_close(ana_range_quantile(&range, 0.9), 3, 1e-12);
    }
}

static void nine_of_ten_normal_values_lie_in_the_range(void **state)
{
    (void)state;
    const ana_range range = {ANA_NORMAL, false, 10, 20, 0};
    double low = 0;
    double high = 0;
    int inside = 0;
    rng random = rng_init(1, 0);
    ana_range_ends(&range, &low, &high);

    for (int draw = 0; draw < 5000; draw++) {
        const double value = ana_range_quantile(&range, rng_unit(&random) + 0x1p-54);
        inside += value >= 10 && value <= 20;
        assert_true(value >= low && value <= high);
    }

    assert_in_range(inside, 5000 * 88 / 100, 5000 * 92 / 100);
    assert_close(low, 15 - 3.0902 * 5 / 1.6449, 1e-3);
}

static void a_section_is_read(void **state)
{
    (void)state;
    ana_uncertainty read = {0};

    assert_ok(read_section(
        "{\"draws\":200,\"seed\":7,\"detail\":5,\"equivalence\":0.01,\"resample\":false,"
        "\"assumed\":false,\"model_error\":0,\"ranges\":{"
        "\"hardware.efficiency.gemm\":[0.5,0.7],"
        "\"cluster.links.inter.latency_ns\":{\"factor\":[0.5,4],"
        "\"distribution\":\"log-uniform\"},"
        "\"training.decision_ns\":{\"range\":[0,9],\"distribution\":\"triangular\","
        "\"mode\":2}}}",
        &read, NULL));

    assert_int_equal(read.draw_count, 200);
    assert_int_equal(read.seed, 7);
    assert_int_equal(read.detail_count, 5);
    assert_int_equal(read.range_count, 3);
    assert_false(read.resamples || read.ranges_assumed);
    assert_true(read.equivalence == 0.01 && read.model_error == 0);
    assert_true(read.ranges[0].range.low == 0.5 && read.ranges[0].range.high == 0.7);
    assert_true(read.ranges[1].range.is_factor);
    assert_int_equal(read.ranges[1].range.distribution, ANA_LOG_UNIFORM);
    assert_true(read.ranges[2].range.mode == 2);
}

static void what_is_missing_has_a_default(void **state)
{
    (void)state;
    ana_uncertainty read = {0};

    assert_ok(ana_uncertainty_read((json_value){0}, &read, NULL));

    assert_int_equal(read.draw_count, ANA_DRAWS_DEFAULT);
    assert_int_equal(read.seed, 1);
    assert_true(read.ranges_assumed && read.resamples && read.range_count == 0);
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
        {"{\"ranges\":{\"training.decision_ns\":{\"range\":[1,2],\"factor\":[1,2]}}}",
         "s.json: ranges.training.decision_ns: has both 'range' and 'factor'"},
        {"{\"ranges\":{\"training.decision_ns\":{\"range\":[1,2],\"distribution\":\"gauss\"}}}",
         "s.json: ranges.training.decision_ns.distribution: 'gauss' is no distribution; known: "
         "uniform, log-uniform, triangular, normal"},
        {"{\"ranges\":{\"training.decision_ns\":{\"range\":[0,2],"
         "\"distribution\":\"log-uniform\"}}}",
         "s.json: ranges.training.decision_ns: low 0 is not above 0, which log-uniform needs"},
        {"{\"ranges\":{\"training.decision_ns\":{\"range\":[0,2],\"mode\":1}}}",
         "s.json: ranges.training.decision_ns.mode: only a triangular distribution has a mode"},
        {"{\"ranges\":{\"trainign.decision_ns\":[1,2]}}",
         "s.json: ranges.trainign.decision_ns: 'trainign.decision_ns' names nothing in a study; "
         "did "
         "you mean 'training.decision_ns'?"},
        {"{\"ranges\":[1]}", "s.json: ranges: needs an object of at most 64 paths"},
        {"{\"drows\":1}", "s.json: unknown key 'drows'; did you mean 'draws'?"},
    };
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        ana_uncertainty read = {.draw_count = -7};
        error_message err = {0};
        assert_int_equal(read_section(cases[row].text, &read, &err), STATUS_FORMAT);
        assert_string_equal(err.message, cases[row].message);
        assert_int_equal(read.draw_count, -7);
    }
}

static void numbers_beyond_their_limits_are_refused(void **state)
{
    (void)state;
    ana_uncertainty read = {0};
    error_message err = {0};

    assert_int_equal(read_section("{\"draws\":1000000000}", &read, &err), STATUS_FORMAT);
    assert_int_equal(read_section("{\"draws\":5}", &read, &err), STATUS_INVALID);
    assert_string_equal(err.message, "5 draws are neither 0 (no error bars) nor in [20, 100000]");
    assert_ok(read_section("{\"draws\":0}", &read, &err));
    assert_int_equal(read_section("{\"draws\":100000,\"detail\":10000}", &read, &err),
                     STATUS_INVALID);
    assert_string_equal(err.message, "100000 draws of 10000 points are more than 5000000");
    assert_int_equal(read_section("{\"equivalence\":-0.1}", &read, &err), STATUS_FORMAT);
    assert_int_equal(read_section("{\"model_error\":0.3}", &read, &err), STATUS_FORMAT);
}

static void long_runs_are_drawn_less_unless_told(void **state)
{
    (void)state;
    ana_uncertainty free_choice = {.draw_count = 128, .detail_count = 32};
    ana_uncertainty short_runs = free_choice;
    ana_uncertainty told = {
        .draw_count = 128, .detail_count = 32, .draws_are_given = true, .detail_is_given = true};

    ana_uncertainty_limit(&short_runs, 1);
    ana_uncertainty_limit(&free_choice, 1000000);
    ana_uncertainty_limit(&told, 1000000);

    assert_int_equal(short_runs.detail_count, 32);
    assert_int_equal(free_choice.detail_count, 8);
    assert_int_equal(free_choice.draw_count, 64);
    assert_int_equal(told.detail_count, 32);
    assert_int_equal(told.draw_count, 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_distribution),
        cmocka_unit_test(a_range_without_width_is_certain),
        cmocka_unit_test(nine_of_ten_normal_values_lie_in_the_range),
        cmocka_unit_test(a_section_is_read),
        cmocka_unit_test(what_is_missing_has_a_default),
        cmocka_unit_test(malformed_sections_are_refused_by_name),
        cmocka_unit_test(numbers_beyond_their_limits_are_refused),
        cmocka_unit_test(long_runs_are_drawn_less_unless_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
