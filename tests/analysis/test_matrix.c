/// The matrix of a what-if study: its points against plain nested loops over the axes, and
/// what is refused.
#include "analysis/whatif/matrix.h"
#include "base/json.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

#define STUDY(rest)                                                                                \
    "{\"schema\":\"dynmo-study/1\",\"model\":\"gpt2\",\"hardware\":\"h100-sxm\","                  \
    "\"pipeline\":{\"stages\":4}" rest "}"

static ana_matrix matrix;

static status open_text(const char *text)
{
    return ana_matrix_open("s.json", text, memory, &matrix, &why);
}

TEST(points_are_those_of_nested_loops)
{
    text_buffer point = {0};
    text_buffer looped = {0};
    text_buffer found = {0};
    int64_t number = 0;

    assert_ok(open_text(STUDY(",\"vary\":{\"pipeline.stages\":[2,3,4],"
                              "\"training.microbatches\":[8,16]},\"alternatives\":{\"gpu\":"
                              "{\"a\":{\"cluster.gpus\":8},\"b\":{\"cluster.gpus\":16,"
                              "\"training.dtype\":\"float16\"}}}")));
    assert_int_equal(matrix.point_count, 12);
    for (int stages = 2; stages <= 4; stages++) {
        for (int microbatches = 8; microbatches <= 16; microbatches += 8) {
            for (int gpus = 8; gpus <= 16; gpus += 8, number++) {
                int value[ANA_AXES_MAX];
                char changes[200];
                ana_matrix_values(&matrix, number, value);
                text_clear(&point);
                text_clear(&looped);
                ana_matrix_changes(&matrix, value, &found);
                assert_ok(json_change("s.json", matrix.base, found.bytes, &point, NULL));
                snprintf(changes, sizeof changes,
                         "{\"pipeline.stages\":%d,\"training.microbatches\":%d,\"cluster.gpus\":%d"
                         "%s}",
                         stages, microbatches, gpus,
                         gpus == 16 ? ",\"training.dtype\":\"float16\"" : "");
                assert_ok(json_change("s.json", matrix.base, changes, &looped, NULL));
                assert_string_equal(point.bytes, looped.bytes);
            }
        }
    }
    text_free(&point);
    text_free(&looped);
    text_free(&found);
}

TEST(rows_of_balancing_are_the_last_axis)
{
    assert_ok(open_text(STUDY(",\"balancing\":[{\"balancer\":\"even\"},{\"balancer\":"
                              "\"partition\",\"policy\":\"every:2\"}],\"vary\":{"
                              "\"pipeline.stages\":[4,2]}")));

    assert_int_equal(matrix.axis_count, 2);
    assert_string_equal(matrix.axes[1].name, "balancing");
    assert_string_equal(matrix.axes[1].values[1].label, "partition every:2");
    assert_int_equal(ana_matrix_base_point(&matrix), 0);
}

TEST(what_is_no_matrix_is_refused)
{
    assert_fails(open_text(STUDY(",\"vary\":{}")), STATUS_FORMAT,
                 "s.json: vary: needs at least one axis");
    assert_fails(open_text(STUDY(",\"vary\":{\"pipeline.stages\":[]}")), STATUS_FORMAT,
                 "s.json: vary.pipeline.stages: has 0 values, needs 1 to 4096");
    assert_fails(open_text(STUDY(",\"vary\":{\"pipeline.stages\":8}")), STATUS_FORMAT,
                 "s.json: vary.pipeline.stages: needs an array of values");
    assert_fails(open_text(STUDY(",\"vary\":{\"pipeline.stagess\":[8]}")), STATUS_FORMAT,
                 "s.json: vary.pipeline.stagess: 'pipeline.stagess' names nothing in a study; "
                 "did you mean 'pipeline.stages'?");
    assert_fails(open_text(STUDY(",\"vary\":{\"pipeline.stages\":[8,4,8.0]}")), STATUS_FORMAT,
                 "s.json: vary.pipeline.stages: the value '8' is there twice");
    assert_fails(
        open_text(STUDY(",\"vary\":{\"pipeline\":[{\"stages\":4}],\"pipeline.stages\":[8]}")),
        STATUS_FORMAT,
        "s.json: the axes 'pipeline' and 'pipeline.stages' both set 'pipeline.stages'");
    assert_fails(open_text(STUDY(",\"alternatives\":{\"a\":{\"b\":{}}}")), STATUS_FORMAT,
                 "s.json: alternatives.a.b: needs an object of paths and their values");
    assert_fails(
        open_text(STUDY(",\"balancing\":[{\"balancer\":\"even\"},{\"balancer\":\"tuned\"}],"
                        "\"vary\":{\"balancing.policy\":[\"never\"]}")),
        STATUS_FORMAT,
        "s.json: balancing: has 2 rows, which are an axis, and 'balancing.policy' is "
        "another over them");
}

/// Nine axes of ten values.
TEST(a_thousand_million_points_are_too_many)
{
    text_buffer text = {0};
    static const char *const axes[] = {"nodes",        "gpus",         "links.shared",
                                       "memory_bytes", "send",         "price_per_gpu_hour",
                                       "price_date",   "price_source", "gpus_per_node"};
    text_append(&text, "{\"schema\":\"dynmo-study/1\",\"vary\":{");
    for (int axis = 0; axis < 9; axis++) {
        text_format(&text, "%s\"cluster.%s\":[1,2,3,4,5,6,7,8,9,10]", axis > 0 ? "," : "",
                    axes[axis]);
    }
    text_append(&text, "}}");

    assert_fails(open_text(text.bytes), STATUS_INVALID,
                 "s.json: the 9 axes have 1000000000 points in all, at most 4000000 are played");
    text_free(&text);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
