/// What names of annotations say, by themselves and by the rules of phase maps; and what is refused
/// in the file of a map.
#include "tests/test.h"
#include "tests/test_memory.h"
#include "traces/import/annotation.h"

#include <stdio.h>
#include <string.h>

static trace_phase_map *open_map(const char *text)
{
    trace_phase_map *map = NULL;
    require(trace_phase_map_open_bytes("m.json", text, strlen(text), memory, &map, &why));
    return map;
}

static void expect_refused(const char *text, const char *message)
{
    trace_phase_map *map = NULL;
    assert_fails(trace_phase_map_open_bytes("m.json", text, strlen(text), memory, &map, &why),
                 STATUS_FORMAT, message);
    assert_null(map);
}

#define HEAD "{\"schema\":\"dynmo-phase-map/1\","

TEST(the_first_rule_that_matches_decides)
{
    trace_annotation found;
    bool is_known = false;
    trace_phase_map *map = open_map(
        HEAD "\"scope\":\"^chunk\",\"layers\":3,\"annotations\":["
             "{\"match\":\"^warm\",\"ignore\":true},"
             "{\"match\":\"^L([0-9]+)\\\\.([FBW]) mb([0-9]+)$\",\"layer\":{\"group\":1},"
             "\"phase\":{\"group\":2},\"microbatch\":{\"group\":3}},"
             "{\"match\":\"^L\",\"layer\":5,\"phase\":\"BW\",\"component\":\"communication\"},"
             "{\"match\":\"^n$\",\"layer\":{\"count\":\"down\"},\"phase\":\"F\"}]}");

    assert_ok(trace_annotation_read(map, "L12.W mb3", &found, &is_known, NULL));
    assert_true(is_known);
    assert_int_equal(found.layer, 12);
    assert_int_equal(found.kind, TRACE_OP_BACKWARD_WEIGHT);
    assert_int_equal(found.microbatch, 3);
    assert_ok(trace_annotation_read(map, "Lx", &found, &is_known, NULL));
    assert_int_equal(found.layer, 5);
    assert_int_equal(found.kind, TRACE_OP_BACKWARD);
    assert_true(found.is_communication);
    assert_ok(trace_annotation_read(map, "n", &found, &is_known, NULL));
    assert_int_equal(found.count, TRACE_COUNT_DOWN);
    assert_ok(trace_annotation_read(map, "warm L1", &found, &is_known, NULL));
    assert_false(is_known);
    assert_true(trace_phase_map_is_scope(map, "chunk 3"));
    assert_int_equal(trace_phase_map_layers(map), 3);
}

TEST(the_shipped_map_knows_the_names_of_deepseek_v3)
{
    const struct {
        const char *name;
        trace_op_kind kind;
        trace_count count;
        bool is_communication;
    } cases[] = {
        {"attn(F)", TRACE_OP_FORWARD, TRACE_COUNT_UP, false},
        {"mlp(B)", TRACE_OP_BACKWARD_INPUT, TRACE_COUNT_DOWN, false},
        {"attn(W)", TRACE_OP_BACKWARD_WEIGHT, TRACE_COUNT_DOWN, false},
        {"dispatch(F)", TRACE_OP_FORWARD, TRACE_COUNT_UP, true},
        {"combine(B)", TRACE_OP_BACKWARD_INPUT, TRACE_COUNT_DOWN, true},
    };
    trace_phase_map *map = NULL;
    require(trace_phase_map_open("../traces/phase-maps/deepseek-v3.json", memory, &map, &why));
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        trace_annotation found;
        bool is_known = false;
        assert_ok(trace_annotation_read(map, cases[each].name, &found, &is_known, NULL));
        assert_true(is_known);
        assert_int_equal(found.kind, cases[each].kind);
        assert_int_equal(found.count, cases[each].count);
        assert_int_equal(found.is_communication, cases[each].is_communication);
    }
    assert_true(trace_phase_map_is_scope(map, "1F1B"));
}

TEST(a_group_without_a_number_is_refused)
{
    trace_annotation found;
    bool is_known = false;
    trace_phase_map *map = open_map(HEAD "\"annotations\":[{\"match\":\"^L(.*)_(.*)$\",\"layer\":"
                                         "{\"group\":1},\"phase\":{\"group\":2}}]}");

    assert_fails(trace_annotation_read(map, "Lx_F", &found, &is_known, &why), STATUS_INVALID,
                 "annotation 'Lx_F': group 1 of the phase map's rule holds no "
                 "layer in [0, 65535]");
    assert_fails(trace_annotation_read(map, "L3_G", &found, &is_known, &why), STATUS_INVALID,
                 "annotation 'L3_G': group 2 of the phase map's rule is none "
                 "of F, B, W, BW, R");
}

TEST(mistakes_in_the_file_are_named)
{
    expect_refused("{}", "m.json: schema: missing; needs a string");
    expect_refused("{\"schema\":\"dynmo-phase-map/2\"}",
                   "m.json: schema: 'dynmo-phase-map/2' is not dynmo-phase-map/1");
    expect_refused(HEAD "\"annotation\":[]}",
                   "m.json: unknown key 'annotation'; did you mean 'annotations'?");
    expect_refused(HEAD "\"annotations\":{}}", "m.json: annotations: is not an array");
    expect_refused(
        HEAD "\"annotations\":[{\"match\":\"(\",\"phase\":\"F\",\"layer\":0}]}",
        "m.json: annotations[0].match: '(' is no regular expression: Unmatched ( or \\(");
    static const char *const greedy[] = {"((x{255}){255}){255}", "(a)\\\\1"};
    for (size_t each = 0; each < 2; each++) {
        char text[256];
        char message[256];
        snprintf(text, sizeof text, HEAD "\"annotations\":[{\"match\":\"%s\"}]}", greedy[each]);
        snprintf(
            message, sizeof message,
            "m.json: annotations[0].match: '%s' has more than 500 bytes, more than 1000 copies "
            "by {n}, or refers to a group",
            each == 0 ? greedy[0] : "(a)\\1");
        expect_refused(text, message);
    }
    expect_refused(HEAD "\"annotations\":[{\"match\":\"a\",\"phase\":\"F\",\"layr\":0}]}",
                   "m.json: annotations[0]: unknown key 'layr'; did you mean 'layer'?");
    expect_refused(HEAD "\"annotations\":[{\"match\":\"a\",\"phase\":\"G\",\"layer\":0}]}",
                   "m.json: annotations[0].phase: 'G' is none of F, B, W, BW, R");
    expect_refused(HEAD "\"annotations\":[{\"match\":\"a\",\"phase\":{\"group\":1},\"layer\":0}]}",
                   "m.json: annotations[0].phase.group: group 1, but the match has 0");
    expect_refused(
        HEAD "\"annotations\":[{\"match\":\"a\",\"phase\":\"F\",\"layer\":{\"count\":\"x\"}}]}",
        "m.json: annotations[0].layer.count: 'x' is neither up nor down");
    expect_refused(HEAD "\"annotations\":[{\"match\":\"a\",\"phase\":\"F\",\"layer\":0,"
                        "\"component\":\"c\"}]}",
                   "m.json: annotations[0].component: 'c' is neither compute nor communication");
    expect_refused(HEAD "\"layers\":0,\"annotations\":[]}",
                   "m.json: layers: 0 is outside [1, 65536]");
}

TEST(names_of_torch_and_dynmo_need_no_map)
{
    const struct {
        const char *name;
        trace_op_kind kind;
        int layer;
        int microbatch;
    } cases[] = {
        {"PP:2F5", TRACE_OP_FORWARD, 2, 5},
        {"PP:2I5", TRACE_OP_BACKWARD_INPUT, 2, 5},
        {"PP:12W0", TRACE_OP_BACKWARD_WEIGHT, 12, 0},
        {"PP:0B31", TRACE_OP_BACKWARD, 0, 31},
        {"PP:3SEND_F1", TRACE_OP_SEND_FORWARD, 3, 1},
        {"PP:3RECV_F1", TRACE_OP_RECV_FORWARD, 3, 1},
        {"PP:3SEND_B1", TRACE_OP_SEND_BACKWARD, 3, 1},
        {"PP:3RECV_B1", TRACE_OP_RECV_BACKWARD, 3, 1},
        {"PP:3REDUCE_GRAD", TRACE_OP_REDUCE_GRADIENTS, 3, -1},
        {"Forward 4", TRACE_OP_FORWARD, -1, 4},
        {"Backward 4", TRACE_OP_BACKWARD, -1, 4},
        {"dynmo it=7 mb=1 L=3 F", TRACE_OP_FORWARD, 3, 1},
        {"dynmo it=7 mb=1 L=3 R", TRACE_OP_RECOMPUTE, 3, 1},
        {"dynmo it=7 mb=1 L=3 BW", TRACE_OP_BACKWARD, 3, 1},
        {"Optimizer.step#AdamW.step", TRACE_OP_OPTIMIZER_STEP, -1, -1},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        trace_annotation found;
        bool is_known = false;
        assert_ok(trace_annotation_read(NULL, cases[each].name, &found, &is_known, NULL));
        assert_true(is_known);
        assert_int_equal(found.kind, cases[each].kind);
        assert_int_equal(found.layer, cases[each].layer);
        assert_int_equal(found.microbatch, cases[each].microbatch);
    }
}

TEST(other_names_are_not_known)
{
    static const char *const names[] = {"",
                                        "PP:",
                                        "PP:2F",
                                        "PP:2UNSHARD",
                                        "PP:2F5x",
                                        "PP:F5",
                                        "PP:2WAIT_SEND_F5",
                                        "Forward",
                                        "Forward x",
                                        "dynmo it=1 L=3 F",
                                        "forward 3",
                                        "PP:(0F1;3B0)OVERLAP",
                                        "PP:65536F0",
                                        "PP:0F1048576",
                                        "PP:0F99999999999999999999"};
    for (size_t each = 0; each < sizeof names / sizeof names[0]; each++) {
        trace_annotation found;
        bool is_known = true;
        assert_ok(trace_annotation_read(NULL, names[each], &found, &is_known, NULL));
        assert_false(is_known);
    }
    int step = -1;
    assert_true(trace_annotation_is_step("ProfilerStep#12", &step));
    assert_int_equal(step, 12);
    assert_false(trace_annotation_is_step("ProfilerStep#x", &step));
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
