/// Plan files: what is written reads back the same; every way to be wrong is refused by its place.
#include "balance/plan.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdio.h>
#include <string.h>

static void assert_refused(const char *text, status code, const char *message)
{
    json_document *document = NULL;
    bal_plan plan = {.rank_count = -7};
    error_message err = {0};
    arena *memory = arena_create(4096);
    assert_ok(json_open_bytes("p.json", text, strlen(text), &document, NULL));

    const status result = bal_plan_read(json_root(document), memory, &plan, &err);

    assert_string_equal(err.message, message);
    assert_int_equal(result, code);
    assert_int_equal(plan.rank_count, -7);
    json_close(document);
    arena_destroy(memory);
}

/// A good plan of two ranks with one piece replaced.
static void assert_refused_with(const char *piece, const char *replacement, status code,
                                const char *message)
{
    static const char good[] =
        "{\"schema\":\"dynmo-plan/1\",\"first_layer\":[0,2,4],\"chunks\":1,"
        "\"placement\":\"interleaved\",\"schedule\":\"1f1b\",\"microbatches\":1,"
        "\"stage_ranks\":[1,0],\"data_parallel\":1,\"embedding\":true,\"head\":false}";
    char text[1024];
    const char *at = strstr(good, piece);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, replacement,
             at + strlen(piece));
    assert_refused(text, code, message);
}

static void what_is_written_reads_back_the_same(void **state)
{
    arena *memory = *state;
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
                              .order = &order};
    text_buffer out = {0};
    json_writer writer = json_writer_init(&out);
    bal_plan_write(&written, &writer);
    json_document *document = NULL;
    bal_plan read;
    error_message err = {0};
    assert_ok(json_open_bytes("p.json", out.bytes, out.length, &document, &err));

    if (bal_plan_read(json_root(document), memory, &read, &err) != STATUS_OK) {
        fail_msg("%s", err.message);
    }

    assert_memory_equal(read.first_layer, first_layer, sizeof first_layer);
    assert_memory_equal(read.stage_ranks, stage_ranks, sizeof stage_ranks);
    assert_int_equal(read.rank_count, 3);
    assert_string_equal(read.schedule, "zb-h1");
    assert_int_equal(read.microbatch_count, 4);
    assert_int_equal(read.data_parallel, 8);
    assert_false(read.embedding);
    assert_true(read.head);
    assert_true(read.order->has_split);
    text_buffer again = {0};
    json_writer second = json_writer_init(&again);
    bal_plan_write(&read, &second);
    assert_string_equal(again.bytes, out.bytes);
    text_free(&again);
    text_free(&out);
    json_close(document);
}

static void files_of_another_kind_are_refused(void **state)
{
    (void)state;
    assert_refused("[]", STATUS_FORMAT, "p.json: not an object");
    assert_refused("{}", STATUS_FORMAT, "p.json: schema: missing; needs a string");
    assert_refused_with("dynmo-plan/1", "dynmo-plan/2", STATUS_UNSUPPORTED,
                        "p.json: schema: 'dynmo-plan/2' is not dynmo-plan/1");
    assert_refused_with("dynmo-plan/1", "dynmo-study/1", STATUS_FORMAT,
                        "p.json: schema: 'dynmo-study/1' is not dynmo-plan/1");
    assert_refused_with("\"chunks\"", "\"chunk\"", STATUS_FORMAT,
                        "p.json: unknown key 'chunk'; did you mean 'chunks'?");
}

static void cuts_that_are_none_are_refused(void **state)
{
    (void)state;
    assert_refused_with("[0,2,4]", "[0]", STATUS_FORMAT,
                        "p.json: first_layer: needs ranks * 1 + 1 entries with 1 to 4096 ranks, "
                        "has 1");
    assert_refused_with("[0,2,4]", "[1,2,4]", STATUS_FORMAT, "p.json: first_layer[0]: 1 is not 0");
    assert_refused_with("[0,2,4]", "[0,5,4]", STATUS_FORMAT,
                        "p.json: first_layer[2]: 4 is below the entry before it, 5");
    assert_refused_with("[0,2,4]", "[0,2.5,4]", STATUS_FORMAT,
                        "p.json: first_layer[1]: 2.5 is not an integer");
    assert_refused_with("\"chunks\":1", "\"chunks\":0", STATUS_FORMAT,
                        "p.json: chunks: 0 is outside [1, 64]");
}

static void schedules_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    assert_refused_with("\"1f1b\"", "\"2f2b\"", STATUS_FORMAT,
                        "p.json: schedule: unknown schedule '2f2b'");
    assert_refused_with("\"1f1b\"", "\"interleaved-1f1b\"", STATUS_FORMAT,
                        "p.json: schedule: interleaved-1f1b does not play 1 chunks per rank in "
                        "this placement");
    assert_refused_with("\"interleaved\"", "\"v\"", STATUS_FORMAT,
                        "p.json: placement: v needs 2 chunks per rank, not 1");
    assert_refused_with("\"interleaved\"", "\"bidirectional\"", STATUS_FORMAT,
                        "p.json: placement: a plan has one copy of every layer, bidirectional two");
    assert_refused_with("\"interleaved\"", "\"w\"", STATUS_FORMAT,
                        "p.json: placement: 'w' is neither v nor interleaved");
    assert_refused_with("\"microbatches\":1", "\"microbatches\":0", STATUS_FORMAT,
                        "p.json: microbatches: 0 is outside [1, 1048576]");
    assert_refused_with("\"data_parallel\":1", "\"data_parallel\":0", STATUS_FORMAT,
                        "p.json: data_parallel: 0 is outside [1, 1048576]");
    assert_refused_with("\"embedding\":true", "\"embedding\":1", STATUS_FORMAT,
                        "p.json: embedding: is not true or false");
    assert_refused_with("[1,0]", "[1,1]", STATUS_FORMAT, "p.json: stage_ranks: names rank 1 twice");
    assert_refused_with("[1,0]", "[1]", STATUS_FORMAT,
                        "p.json: stage_ranks: has 1 entries, needs 2");
}

static void orders_that_cannot_be_played_are_refused(void **state)
{
    (void)state;
    const char *const head = "\"head\":false";
    assert_refused_with(head, "\"head\":false,\"order\":[]", STATUS_FORMAT,
                        "p.json: order: needs one array of ops for each of 2 ranks");
    assert_refused_with(head, "\"head\":false,\"order\":[[],7]", STATUS_FORMAT,
                        "p.json: order[1]: is not an array");
    assert_refused_with(head, "\"head\":false,\"order\":[[\"F0\",\"X0\"],[]]", STATUS_FORMAT,
                        "p.json: order[0][1]: 'X0' is not an op");
    assert_refused_with(head, "\"head\":false,\"order\":[[\"F0&BW1&F2\"],[]]", STATUS_FORMAT,
                        "p.json: order[0][0]: 'F0&BW1&F2' is not an op");
    assert_refused_with(head, "\"head\":false,\"order\":[[\"F0&F1\"],[]]", STATUS_FORMAT,
                        "p.json: order: rank 0 op 0: F0: what overlaps is an F and a B or BW");
    assert_refused_with(head, "\"head\":false,\"order\":[[\"F0&BW0\"],[]]", STATUS_FORMAT,
                        "p.json: order: rank 0 op 0: F0: it overlaps an op of its own microbatch");
    assert_refused_with(head, "\"head\":false,\"order\":[[\"F0\",\"BW0\"],[\"BW0\",\"F0\"]]",
                        STATUS_FORMAT,
                        "p.json: order: rank 1: BW0 is too early: F0 is not before it");
}

static void orders_with_ops_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    static const char *const orders[] = {
        "[[\"F0\",\"BW0\",\"F9\"],[\"F0\",\"BW0\"]]", "[[\"F0\",\"BW0\"],[\"3:F0\",\"BW0\"]]",
        "[[\"F0\"],[\"F0\",\"BW0\"]]", "[[\"F0\",\"F0\",\"BW0\"],[\"F0\",\"BW0\"]]"};
    for (size_t index = 0; index < sizeof orders / sizeof orders[0]; index++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{\"schema\":\"dynmo-plan/1\",\"first_layer\":[0,2,4],\"chunks\":1,"
                 "\"placement\":\"interleaved\",\"schedule\":\"1f1b\",\"microbatches\":1,"
                 "\"stage_ranks\":[1,0],\"data_parallel\":1,\"embedding\":true,\"head\":false,"
                 "\"order\":%s}",
                 orders[index]);
        json_document *document = NULL;
        bal_plan plan;
        arena *memory = arena_create(4096);
        assert_ok(json_open_bytes("p.json", text, strlen(text), &document, NULL));
        assert_int_equal(bal_plan_read(json_root(document), memory, &plan, NULL), STATUS_FORMAT);
        json_close(document);
        arena_destroy(memory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(files_of_another_kind_are_refused),
        cmocka_unit_test(cuts_that_are_none_are_refused),
        cmocka_unit_test(schedules_that_do_not_fit_are_refused),
        cmocka_unit_test(orders_that_cannot_be_played_are_refused),
        cmocka_unit_test(orders_with_ops_that_do_not_exist_are_refused),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
