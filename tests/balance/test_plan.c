/// Plan files: what is written reads back the same; every way to be wrong is refused by its place.
#include "balance/plan.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

TEST(what_is_written_reads_back_the_same)
{
    const int first_layer[] = {0, 2, 2, 7};
    const int stage_ranks[] = {2, 0, 1};
    bal_schedule order;
    const bal_schedule_request request = {.name = "zb-h1", .rank_count = 3, .microbatch_count = 4};
    assert_ok(bal_schedule_build(&request, memory, &order, NULL));
    const bal_plan written = {.first_layer = first_layer,
                              .rank_count = 3,
                              .chunk_count = 1,
                              .placement = BAL_PLACEMENT_LOOP,
                              .schedule = "zb-h1",
                              .microbatch_count = 4,
                              .stage_ranks = stage_ranks,
                              .data_parallel = 8,
                              .head = true,
                              .first_stage_whole = true,
                              .order = &order};
    text_buffer out = {0};
    json_writer writer = json_writer_init(&out);
    bal_plan_write(&written, &writer);
    json_document *document = NULL;
    bal_plan read;
    assert_ok(json_open_bytes("p.json", out.bytes, out.length, &document, &why));

    require(bal_plan_read(json_root(document), memory, &read, &why));

    assert_memory_equal(read.first_layer, first_layer, sizeof first_layer);
    assert_memory_equal(read.stage_ranks, stage_ranks, sizeof stage_ranks);
    assert_int_equal(read.rank_count, 3);
    assert_string_equal(read.schedule, "zb-h1");
    assert_int_equal(read.microbatch_count, 4);
    assert_int_equal(read.data_parallel, 8);
    assert_false(read.embedding);
    assert_true(read.head);
    assert_true(read.first_stage_whole);
    assert_true(read.order->has_split);
    text_buffer again = {0};
    json_writer second = json_writer_init(&again);
    bal_plan_write(&read, &second);
    assert_string_equal(again.bytes, out.bytes);
    text_free(&again);
    text_free(&out);
    json_close(document);
}

static const char good[] =
    "{\"schema\":\"dynmo-plan/1\",\"first_layer\":[0,2,4],\"chunks\":1,"
    "\"placement\":\"interleaved\",\"schedule\":\"1f1b\",\"microbatches\":1,"
    "\"stage_ranks\":[1,0],\"data_parallel\":1,\"embedding\":true,\"head\":false}";

/// One piece of a good plan replaced, and what is said of it after "p.json: ".
static const struct {
    const char *piece, *replacement, *message; // NULL: any
} refusals[] = {
    {good, "[]", "not an object"},
    {good, "{}", "schema: missing; needs a string"},
    {"dynmo-plan/1", "dynmo-plan/2", "schema: 'dynmo-plan/2' is not dynmo-plan/1"},
    {"dynmo-plan/1", "dynmo-study/1", "schema: 'dynmo-study/1' is not dynmo-plan/1"},
    {"\"chunks\"", "\"chunk\"", "unknown key 'chunk'; did you mean 'chunks'?"},
    {"[0,2,4]", "[0]", "first_layer: needs ranks * 1 + 1 entries with 1 to 4096 ranks, has 1"},
    {"[0,2,4]", "[1,2,4]", "first_layer[0]: 1 is not 0"},
    {"[0,2,4]", "[0,5,4]", "first_layer[2]: 4 is below the entry before it, 5"},
    {"[0,2,4]", "[0,2.5,4]", "first_layer[1]: 2.5 is not an integer"},
    {"\"chunks\":1", "\"chunks\":0", "chunks: 0 is outside [1, 64]"},
    {"\"1f1b\"", "\"2f2b\"", "schedule: unknown schedule '2f2b'"},
    {"\"1f1b\"", "\"interleaved-1f1b\"",
     "schedule: interleaved-1f1b does not play 1 chunks per rank in this placement"},
    {"\"interleaved\"", "\"v\"", "placement: v needs 2 chunks per rank, not 1"},
    {"\"interleaved\"", "\"bidirectional\"",
     "placement: a plan has one copy of every layer, bidirectional two"},
    {"\"interleaved\"", "\"w\"", "placement: 'w' is neither v nor interleaved"},
    {"\"microbatches\":1", "\"microbatches\":0", "microbatches: 0 is outside [1, 1048576]"},
    {"\"data_parallel\":1", "\"data_parallel\":0", "data_parallel: 0 is outside [1, 1048576]"},
    {"\"embedding\":true", "\"embedding\":1", "embedding: is not true or false"},
    {"[1,0]", "[1,1]", "stage_ranks: names rank 1 twice"},
    {"[1,0]", "[1]", "stage_ranks: has 1 entries, needs 2"},
    {"false}", "false,\"order\":[]}", "order: needs one array of ops for each of 2 ranks"},
    {"false}", "false,\"order\":[[],7]}", "order[1]: is not an array"},
    {"false}", "false,\"order\":[[\"F0\",\"X0\"],[]]}", "order[0][1]: 'X0' is not an op"},
    {"false}", "false,\"order\":[[\"F0&BW1&F2\"],[]]}", "order[0][0]: 'F0&BW1&F2' is not an op"},
    {"false}", "false,\"order\":[[\"F0&F1\"],[]]}",
     "order: rank 0 op 0: F0: what overlaps is an F and a B or BW"},
    {"false}", "false,\"order\":[[\"F0&BW0\"],[]]}",
     "order: rank 0 op 0: F0: it overlaps an op of its own microbatch"},
    {"false}", "false,\"order\":[[\"F0\",\"BW0\"],[\"BW0\",\"F0\"]]}",
     "order: rank 1: BW0 is too early: F0 is not before it"},
    {"false}", "false,\"order\":[[\"F0\",\"BW0\",\"F9\"],[\"F0\",\"BW0\"]]}", NULL},
    {"false}", "false,\"order\":[[\"F0\",\"BW0\"],[\"3:F0\",\"BW0\"]]}", NULL},
    {"false}", "false,\"first_stage_backward\":\"both\"}",
     "first_stage_backward: 'both' is neither split nor whole"},
    {"false}", "false,\"order\":[[\"F0\"],[\"F0\",\"BW0\"]]}", NULL},
    {"false}", "false,\"order\":[[\"F0\",\"F0\",\"BW0\"],[\"F0\",\"BW0\"]]}", NULL},
};

TEST(what_is_wrong_is_refused_by_its_place)
{
    for (size_t row = 0; row < sizeof refusals / sizeof refusals[0]; row++) {
        const char *piece = refusals[row].piece;
        const char *message = refusals[row].message;
        const char *at = strstr(good, piece);
        char text[1024];
        char expected[256];
        json_document *document = NULL;
        bal_plan plan = {.rank_count = -7};
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, refusals[row].replacement,
                 at + strlen(piece));
        assert_ok(json_open_bytes("p.json", text, strlen(text), &document, NULL));

        const status code = bal_plan_read(json_root(document), memory, &plan, &why);

        const bool is_other_version = strstr(text, "dynmo-plan/2") != NULL;
        assert_int_equal(code, is_other_version ? STATUS_UNSUPPORTED : STATUS_FORMAT);
        snprintf(expected, sizeof expected, "p.json: %s", message != NULL ? message : "");
        if (message != NULL) assert_string_equal(why.message, expected);
        assert_int_equal(plan.rank_count, -7);
        json_close(document);
    }
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
