/// Timelines as files: what is written reads back; the Chrome trace is exact and complete.
#include "analysis/report/perfetto.h"
#include "analysis/report/timeline_file.h"
#include "sim/pipeline.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <string.h>

enum { RANKS = 2, MICROBATCHES = 3 };

static const int64_t forward[RANKS] = {1001, 2002};
static const int64_t input[RANKS] = {1500, 2500};
static const int64_t weight[RANKS] = {700, 800};
static const int64_t send[RANKS] = {11, 13};
static const int64_t memory_f[RANKS] = {10, 20};
static const int64_t memory_b[RANKS] = {-4, -8};
static const int64_t memory_w[RANKS] = {-6, -12};
static const int first_layer[RANKS + 1] = {0, 3, 5};

static void play(ana_timeline *timeline, arena *memory)
{
    const bal_stage_costs costs = {.stage_count = RANKS,
                                   .microbatch_count = 1,
                                   .forward_ns = forward,
                                   .backward_input_ns = input,
                                   .backward_weight_ns = weight,
                                   .send_forward_ns = send,
                                   .send_backward_ns = send,
                                   .memory_forward = memory_f,
                                   .memory_backward_input = memory_b,
                                   .memory_backward_weight = memory_w};
    const bal_schedule_request request = {
        .name = "zb-h1", .rank_count = RANKS, .microbatch_count = MICROBATCHES, .costs = &costs};
    sim_order order;
    *timeline = (ana_timeline){.label = "partition \"x\"",
                               .iteration = 7,
                               .first_layer = first_layer,
                               .memory_forward = memory_f,
                               .memory_backward_input = memory_b,
                               .memory_backward_weight = memory_w};
    assert_ok(bal_schedule_build(&request, memory, &timeline->schedule, NULL));
    assert_ok(sim_order_compile(&timeline->schedule, memory, &order, NULL));
    sim_timeline_init(&timeline->schedule, memory, &timeline->timeline);
    sim_order_play(&order, &costs, NULL, &timeline->timeline);
}

static void what_is_written_reads_back(void **state)
{
    arena *memory = *state;
    text_buffer out = {0};
    json_document *document = NULL;
    ana_timeline written;
    ana_timeline read;
    play(&written, memory);

    ana_timeline_write(&written, &out);
    assert_ok(json_open_bytes("t", out.bytes, out.length, &document, NULL));
    assert_ok(ana_timeline_read(document, memory, &read, NULL));

    const int ops = written.schedule.first_op[RANKS];
    assert_int_equal(read.schedule.first_op[RANKS], ops);
    assert_memory_equal(read.schedule.ops, written.schedule.ops, (size_t)ops * sizeof(bal_op));
    assert_memory_equal(read.timeline.begin_ns, written.timeline.begin_ns,
                        (size_t)ops * sizeof(int64_t));
    assert_memory_equal(read.timeline.end_ns, written.timeline.end_ns,
                        (size_t)ops * sizeof(int64_t));
    assert_string_equal(read.label, written.label);
    assert_int_equal(read.iteration, 7);
    assert_true(read.schedule.has_split);
    assert_memory_equal(read.memory_backward_input, memory_b, sizeof memory_b);
    json_close(document);
    text_free(&out);
}

static int occurrences(const char *text, const char *piece)
{
    int count = 0;
    for (const char *at = strstr(text, piece); at != NULL; at = strstr(at + 1, piece)) {
        count++;
    }
    return count;
}

static void the_chrome_trace_is_json_with_every_op_and_message(void **state)
{
    arena *memory = *state;
    text_buffer out = {0};
    json_document *document = NULL;
    ana_timeline timeline;
    play(&timeline, memory);
    const ana_timeline *const timelines[] = {&timeline, &timeline};

    assert_ok(ana_perfetto_write(timelines, 2, memory, &out));

    assert_ok(json_open_bytes("t", out.bytes, out.length, &document, NULL));
    assert_int_equal(occurrences(out.bytes, "\"ph\":\"X\""), 2 * RANKS * MICROBATCHES * 3);
    assert_int_equal(occurrences(out.bytes, "\"ph\":\"s\""), 2 * 2 * MICROBATCHES);
    assert_int_equal(occurrences(out.bytes, "\"ph\":\"f\""), 2 * 2 * MICROBATCHES);
    // F0 of rank 0 takes 1001 ns from 0; rank 1 begins when the message is there.
    assert_non_null(
        strstr(out.bytes,
               "{\"ph\":\"X\",\"name\":\"F0\",\"pid\":1,\"tid\":0,\"ts\":0.000,\"dur\":1.001}"));
    assert_non_null(
        strstr(out.bytes,
               "{\"ph\":\"X\",\"name\":\"F0\",\"pid\":1,\"tid\":1,\"ts\":1.012,\"dur\":2.002}"));
    assert_non_null(strstr(out.bytes, "rank 1: layers 3-4"));
    assert_non_null(strstr(out.bytes, "partition \\\"x\\\", iteration 7, zb-h1"));
    json_close(document);
    text_free(&out);
}

static void files_that_are_no_timelines_are_refused(void **state)
{
    arena *memory = *state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"{\"schema\":\"x\"}", "t: schema: 'x' is not 'dynmo-timeline/1'"},
        {"{\"schema\":\"dynmo-timeline/1\",\"label\":\"l\",\"schedule\":\"s\","
         "\"placement\":\"v\",\"iteration\":0,\"ranks\":0}",
         "t: ranks: 0 is outside [1, 4096]"},
        {"{\"schema\":\"dynmo-timeline/1\",\"label\":\"l\",\"schedule\":\"s\","
         "\"placement\":\"w\",\"iteration\":0,\"ranks\":1,\"chunks\":1,\"microbatches\":1}",
         "t: placement: 'w' is neither v nor interleaved"},
    };

    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        json_document *document = NULL;
        ana_timeline timeline;
        error_message err = {0};
        const char *text = cases[index].text;
        assert_ok(json_open_bytes("t", text, strlen(text), &document, &err));
        assert_int_equal(ana_timeline_read(document, memory, &timeline, &err), STATUS_FORMAT);
        assert_string_equal(err.message, cases[index].message);
        json_close(document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(the_chrome_trace_is_json_with_every_op_and_message),
        cmocka_unit_test(files_that_are_no_timelines_are_refused),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
