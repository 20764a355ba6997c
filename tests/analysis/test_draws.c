/// Uncertain inputs of points: what is one, its values in every draw, and the studies that come of
/// them; ranges, and the section of a study that declares them.
#include "analysis/whatif/draws.h"
#include "base/json.h"
#include "tests/test_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DRAWS = 64, TEXT_BYTES = 2048 };

/// Draws over points whose studies are opened one after the other.
typedef struct fixture {
    ana_point_worker *worker;
    ana_uncertainty uncertainty;
    ana_draws draws;
    char texts[4][TEXT_BYTES];
} fixture;

static fixture opened;

static void open_fixture(const char *section)
{
    opened = (fixture){0};
    opened.worker = ana_point_worker_create(memory);
    json_value read;
    assert_ok(json_read_text("s.json", section, memory, &read, NULL));
    assert_ok(ana_uncertainty_read(read, &opened.uncertainty, NULL));
    ana_draws_init(&opened.uncertainty, 4, memory, &opened.draws);
}

static status add_point(const char *hardware, int microbatch_size, error_message *err)
{
    char *text = opened.texts[opened.draws.point_count];
    snprintf(text, TEXT_BYTES,
             "{\"schema\":\"dynmo-study/1\",\"model\":{\"base\":\"gpt2\"},"
             "\"hardware\":{\"base\":\"%s\"},"
             "\"training\":{\"microbatches\":8,\"microbatch_size\":%d,\"sequence_length\":1024},"
             "\"pipeline\":{\"stages\":2,\"schedule\":\"1f1b\"},"
             "\"balancing\":[{\"balancer\":\"even\"}]}",
             hardware, microbatch_size);
    assert_ok(ana_point_check(opened.worker, "s.json", text, "{}", NULL));
    return ana_draws_add_point(&opened.draws, ana_point_worker_setup(opened.worker), err);
}

static int find(const ana_draws *draws, const char *path, const char *scope)
{
    for (int input = 0; input < draws->input_count; input++) {
        const ana_uncertain *known = &draws->inputs[input];
        if (strcmp(known->path, path) != 0) continue;
        if (scope == NULL || (known->scope != NULL && strcmp(known->scope, scope) == 0))
            return input;
    }
    return -1;
}

TEST(what_is_assumed_is_uncertain_for_each_kind_of_gpu)
{
    int same = 0;
    open_fixture("{\"draws\":64,\"model_error\":0}");
    assert_ok(add_point("h100-sxm", 1, NULL));
    assert_ok(add_point("b200", 1, NULL));
    ana_draws_make(&opened.draws);

    const ana_draws *draws = &opened.draws;
    const int first = find(draws, "hardware.efficiency.gemm", "h100-sxm");
    const int second = find(draws, "hardware.efficiency.gemm", "b200");
    const int latency = find(draws, "cluster.links.inter.latency_ns", "h100-sxm");
    assert_true(first >= 0 && second >= 0 && first != second && latency >= 0);
    assert_close(draws->inputs[first].nominal_min, 0.7, 1e-12);
    assert_close(draws->inputs[latency].nominal_min, 10000, 1e-12);
    assert_int_equal(find(draws, "training.decision_ns", NULL), -1); // nobody decides
    assert_int_equal(find(draws, "cost model", NULL), -1);
    for (int draw = 0; draw < DRAWS; draw++) {
        same += draws->values[first * DRAWS + draw] == draws->values[second * DRAWS + draw];
    }
    assert_int_equal(same, 0);
    assert_true(draws->points[0].has[first] && !draws->points[0].has[second]);
    assert_true(draws->points[1].has[second] && !draws->points[1].has[first]);
}

TEST(values_are_stratified_and_the_same_at_all_points)
{
    open_fixture("{\"draws\":64,\"ranges\":{\"hardware.efficiency.gemm\":[0.5,0.7]}}");
    assert_ok(add_point("h100-sxm", 1, NULL));
    assert_ok(add_point("h100-sxm", 2, NULL));

    ana_draws_make(&opened.draws);

    bool is_filled[DRAWS] = {false};
    for (int draw = 0; draw < DRAWS; draw++) {
        const double value = ana_draws_value(&opened.draws, 0, 0, draw);
        const int stratum = (int)floor((value - 0.5) / 0.2 * DRAWS);
        assert_in_range(stratum, 0, DRAWS - 1);
        assert_false(is_filled[stratum]);
        is_filled[stratum] = true;
        assert_true(value == ana_draws_value(&opened.draws, 0, 1, draw));
    }
}

/// The cost model's error multiplies times: the same at equal points, and related at related ones,
/// which are therefore told apart better than either is known.
TEST(related_points_share_the_error_of_the_cost_model)
{
    open_fixture("{\"draws\":64,\"model_error\":0.05}");
    assert_ok(add_point("h100-sxm", 1, NULL));
    assert_ok(add_point("h100-sxm", 1, NULL));
    assert_ok(add_point("h100-sxm", 2, NULL));
    ana_draws_make(&opened.draws);
    double squares = 0;
    double apart = 0;

    for (int draw = 0; draw < DRAWS; draw++) {
        const double factor = ana_draws_time_factor(&opened.draws, 0, draw);
        const double other = ana_draws_time_factor(&opened.draws, 2, draw);
        assert_true(factor == ana_draws_time_factor(&opened.draws, 1, draw));
        squares += log(factor) * log(factor);
        apart += log(factor / other) * log(factor / other);
    }

    assert_true(sqrt(squares / DRAWS) > 0.045);
    assert_true(apart > 0 && apart < squares / 2);
}

/// A draw's study holds the drawn values; of a link the other half stays.
TEST(changes_put_the_values_into_the_study)
{
    text_buffer changes = {0};
    open_fixture("{\"draws\":64,\"assumed\":false,\"ranges\":{"
                 "\"cluster.links.inter.latency_ns\":{\"factor\":[2,2]},"
                 "\"hardware.efficiency.gemm\":[0.5,0.7]}}");
    assert_ok(add_point("h100-sxm", 1, NULL));
    ana_draws_make(&opened.draws);

    ana_draws_changes(&opened.draws, 0, 5, &changes);

    assert_ok(ana_point_check(opened.worker, "s.json", opened.texts[0], changes.bytes, NULL));
    const ana_setup *setup = ana_point_worker_setup(opened.worker);
    assert_non_null(setup);
    assert_int_equal(setup->hardware.inter_node.latency_ns, 20000);
    assert_int_equal(setup->hardware.inter_node.bytes_per_s, INT64_C(50000000000));
    assert_close(setup->hardware.gemm_efficiency, ana_draws_value(&opened.draws, 1, 0, 5), 1e-12);
    text_free(&changes);
}

TEST(whole_numbers_are_found_out)
{
    open_fixture("{\"draws\":64,\"assumed\":false,\"ranges\":{"
                 "\"training.microbatches\":[4,9],"
                 "\"hardware.efficiency.memory\":[0.5,0.9]}}");
    assert_ok(add_point("h100-sxm", 1, NULL));

    assert_ok(ana_draws_check(&opened.draws, opened.worker, "s.json", opened.texts[0], NULL));

    assert_true(opened.draws.inputs[0].is_integer);
    assert_false(opened.draws.inputs[1].is_integer);
    ana_draws_make(&opened.draws);
    for (int draw = 0; draw < DRAWS; draw++) {
        const double value = ana_draws_value(&opened.draws, 0, 0, draw);
        assert_true(value == floor(value) && value >= 4 && value <= 9);
    }
}

TEST(what_the_study_does_not_take_is_refused_before_drawing)
{
    open_fixture("{\"ranges\":{\"training.microbatches\":[-4,9]}}");
    assert_ok(add_point("h100-sxm", 1, NULL));
    assert_fails_naming(
        ana_draws_check(&opened.draws, opened.worker, "s.json", opened.texts[0], &why),
        STATUS_FORMAT,
        "s.json: ranges.training.microbatches: -4: s.json: "
        "training.microbatches: -4 is outside [1, ");

    open_fixture("{\"ranges\":{\"training.profile_ns\":{\"factor\":[1,2]}}}");
    assert_fails(add_point("h100-sxm", 1, &why), STATUS_FORMAT,
                 "s.json: ranges.training.profile_ns: the study has no number "
                 "there that a factor could be of");
}

static status read_section(const char *text, ana_uncertainty *uncertainty, error_message *err)
{
    json_value read;
    assert_ok(json_read_text("s.json", text, memory, &read, NULL));
    return ana_uncertainty_read(read, uncertainty, err);
}

TEST(quantiles_are_those_of_the_distribution)
{
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

TEST(a_section_is_read)
{
    ana_uncertainty read = {0};

    assert_ok(read_section("{\"draws\":200,\"seed\":7,\"assumed\":false,\"model_error\":0,"
                           "\"calibration\":\"runs.csv\",\"ranges\":{"
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

TEST(malformed_sections_are_refused_by_name)
{
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
        {"{\"draws\":5}",
         "s.json: draws: 5 draws are neither 0 (no error bars) nor in [20, 10000]"},
        {"{\"model_error\":0.3}", "s.json: model_error: 0.3 is outside [0, 0.25]"},
    };
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        ana_uncertainty read = {.draw_count = -7};
        assert_true(read_section(cases[row].text, &read, &why) != STATUS_OK);
        assert_string_equal(why.message, cases[row].message);
        assert_int_equal(read.draw_count, -7);
    }
}

TEST(long_runs_are_drawn_less_unless_told)
{
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
    return run_all_tests(open_memory, close_memory);
}
