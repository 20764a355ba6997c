/// The reader of profiler traces: what it slices, what it passes over, what it refuses.
#include "base/file.h"
#include "base/text.h"
#include "tests/test.h"
#include "traces/import/json_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// A trace in memory and its reader.
static struct {
    trace_stream *input;
    trace_json_stream *json;
    const trace_json_item *item;
} trace;

static void open_selected(const char *text, size_t length, trace_json_is_wanted *is_wanted,
                          void *context)
{
    assert_ok(trace_stream_open_bytes("t.json", text, length, &trace.input));
    trace.json = trace_json_open(trace.input, "t.json", is_wanted, context);
}

static void open_bytes(const char *text, size_t length)
{
    open_selected(text, length, NULL, NULL);
}

static void close_trace(void)
{
    trace_json_close(trace.json);
    trace_stream_close(trace.input);
}

/// Reads to the end. @return what the reader said; *events: how many it gave
static status read_all(int *events)
{
    *events = 0;
    for (;;) {
        const status result = trace_json_next(trace.json, &trace.item, &why);
        if (result != STATUS_OK || trace.item->kind == TRACE_JSON_END) return result;
        *events += trace.item->kind == TRACE_JSON_EVENT;
    }
}

static void expect_refused(const char *text, const char *message)
{
    int events = 0;
    open_bytes(text, strlen(text));
    assert_fails(read_all(&events), STATUS_FORMAT, message);
    close_trace();
}

static void expect_events(const char *text, int event_count, int malformed_count)
{
    int events = 0;
    open_bytes(text, strlen(text));
    require(read_all(&events));
    assert_int_equal(events, event_count);
    assert_int_equal(trace.item->malformed_count, malformed_count);
    close_trace();
}

static bool is_kernel(void *context, trace_json_event *event)
{
    ++*(int *)context;
    return trace_json_equals(event->category, "kernel");
}

TEST(events_that_are_not_wanted_are_passed_over_and_counted)
{
    // The rest of such an event is not looked at, but for its end: brackets in strings are none.
    const char text[] =
        "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"args\":{\"b\":\"}]\",\"c\":[{}]}},\n"
        "{\"name\":\"k\",\"ts\":7,\"cat\":\"kernel\",\"ph\":\"X\",\"dur\":8},\n"
        "{\"cat\":\"kernel\",\"ts\":9}, {\"ts\":1}, "
        "{\"cat\":\"cpu_op\",\"ph\":\"X\",\"name\":\"a\"}]";
    int asked = 0;
    open_selected(text, sizeof text - 1, is_kernel, &asked);

    assert_ok(trace_json_next(trace.json, &trace.item, NULL));
    assert_true(trace_json_equals(trace.item->event.name, "k"));
    assert_int_equal(trace.item->event.index, 1);
    assert_int_equal(trace.item->event.duration.length, 1);
    assert_ok(trace_json_next(trace.json, &trace.item, NULL));
    assert_int_equal(trace.item->event.index, 2);
    assert_null(trace.item->event.name.bytes);
    assert_ok(trace_json_next(trace.json, &trace.item, NULL));
    assert_int_equal(trace.item->kind, TRACE_JSON_END);
    assert_int_equal(trace.item->event_count, 5);
    assert_int_equal(asked, 5);
    close_trace();
}

TEST(members_and_events_come_in_file_order)
{
    const char text[] = "{\"a\":1, \"traceEvents\" : [ {\"ph\":\"X\",\"ts\":1.5,\"x\":[{}],"
                        "\"args\":{\"correlation\":7}} ], \"b\":{\"c\":[1]} }\n";
    open_bytes(text, sizeof text - 1);

    assert_ok(trace_json_next(trace.json, &trace.item, NULL));
    assert_int_equal(trace.item->kind, TRACE_JSON_MEMBER);
    assert_true(trace_json_equals(trace.item->key, "a"));
    assert_ok(trace_json_next(trace.json, &trace.item, NULL));
    assert_int_equal(trace.item->kind, TRACE_JSON_EVENT);
    assert_true(trace_json_equals(trace.item->event.phase, "X"));
    assert_int_equal(trace.item->event.ts.length, 3);
    int64_t correlation = 0;
    assert_true(
        trace_json_int64(trace_json_find(trace.item->event.args, "correlation"), &correlation));
    assert_int_equal(correlation, 7);
    assert_null(trace_json_find(trace.item->event.args, "none").bytes);
    assert_null(trace.item->event.name.bytes);
    assert_ok(trace_json_next(trace.json, &trace.item, NULL));
    assert_true(trace_json_equals(trace.item->key, "b"));
    assert_ok(trace_json_next(trace.json, &trace.item, NULL));
    assert_int_equal(trace.item->kind, TRACE_JSON_END);
    close_trace();
}

TEST(the_outermost_value_may_be_the_array_of_events)
{
    expect_events("[]", 0, 0);
    expect_events("[{}, {\"ph\":\"X\"}]", 2, 0);
}

TEST(escapes_become_text_and_control_characters_question_marks)
{
    const char text[] = "\"a\\\"b\\\\\\u00e9\\ud83d\\ude00\\u0001\\ud800\"";
    char out[32];

    assert_true(trace_json_text((trace_json_slice){text, sizeof text - 1}, out, sizeof out));
    assert_string_equal(out, "a\"b\\\xc3\xa9\xf0\x9f\x98\x80??");
    assert_false(trace_json_text((trace_json_slice){text, sizeof text - 1}, out, 4));
    assert_string_equal(out, "a\"b");
}

TEST(integers_are_exact_to_64_bits)
{
    const struct {
        const char *text;
        bool is_integer;
        int64_t value;
    } cases[] = {
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"1.0", false, 0},
        {"\"5\"", false, 0},
        {"-", false, 0},
        {"1700000000000000001", true, 1700000000000000001},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        const trace_json_slice slice = {cases[each].text, strlen(cases[each].text)};
        int64_t value = 0;
        assert_int_equal(trace_json_int64(slice, &value), cases[each].is_integer);
        assert_int_equal(value, cases[each].value);
    }
}

TEST(a_quote_inside_a_name_costs_one_event)
{
    expect_events("{\"traceEvents\": [\n  {\n    \"name\": \"a\"\n  },\n"
                  "  {\n    \"name\": \"f(\"x\")\", \"args\": {\n    }\n  },\n"
                  "  {\n    \"name\": \"b\"\n  }\n  ]}\n",
                  2, 1);
    // An odd number of quotes; and the last event of all.
    expect_events("{\"traceEvents\": [\n  {\n    \"name\": \"a\"b\",\n    \"ts\": 1\n  },\n"
                  "  {\n    \"name\": \"b\"\n  },\n  {\n    \"name\": \"c\"d\"\n  }\n  ]}\n",
                  1, 2);
}

TEST(an_event_above_the_limit_costs_one_event)
{
    text_buffer text = {0};
    text_append(&text, "{\"traceEvents\": [\n  {\"name\": \"");
    for (int kib = 0; kib < 1100; kib++) {
        for (int piece = 0; piece < 16; piece++) {
            text_append(&text, "0123456789012345678901234567890123456789012345678901234567890123");
        }
    }
    text_append(&text, "\"},\n  {\"name\": \"b\"}\n  ]}");

    expect_events(text.bytes, 1, 1);
    text_free(&text);
}

TEST(a_large_member_is_passed_over)
{
    text_buffer text = {0};
    text_append(&text, "{\"stacks\": [\"\\\"]\"");
    for (int number = 0; number < 300000; number++) {
        text_append(&text, ",[1,2]");
    }
    text_append(&text, "], \"traceEvents\": [{}]}");

    expect_events(text.bytes, 1, 0);
    text_free(&text);
}

/// Many bytes are looked at together: what stands where among them, and the end, change nothing.
TEST(events_are_the_same_wherever_they_stand)
{
    static const struct {
        const char *event;
        int event_count; // 0: it is malformed
    } cases[] = {
        {"{\"name\":\"a\",\"args\":{\"k\":[1,{\"x\":\"}]{[\"}],\"d\":"
         "\"0123456789012345678901234567890123"
         "4567890123456789012345678901234567890123456789}\"},\"ts\":-1.5e+3}",
         1},
        {"{\"name\":\"0123456789\\\"0123456789012345678901234567890123456789\\\\\",\"ts\":7}", 1},
        {"{\"args\":{\"k\":\"}\\\\\",\"b\":\"\\\"}\",\"c\":[[[[]]]]},\"name\":\"n\",\"ts\":true}",
         1},
        {"{\"args\":{\"k\":\"a\tb\"},\"name\":\"n\"}", 0},
        {"{\"args\":{\"k\":\"a\\\nb\"},\"name\":\"n\"}", 0},
        {"{\"name\":\"a\x1f\"}", 0},
        {"{\"name\":\"a\" \"ts\":1}", 0},
        {"{\"ts\":1_0,\"name\":\"a\"}", 0},
        {"{\"ts\":,\"name\":\"a\"}", 0},
    };
    for (size_t each = 0; each < sizeof cases / sizeof cases[0]; each++) {
        for (int before = 0; before < 80; before++) {
            const int after = before % 2 == 0 ? 0 : 200;
            char text[1000];
            snprintf(text, sizeof text, "[%*s\n%s,\n{\"name\":\"b\"}\n%*s]", before, "",
                     cases[each].event, after, "");
            expect_events(text, cases[each].event_count + 1, 1 - cases[each].event_count);
        }
    }
}

TEST(what_is_no_trace_is_refused)
{
    expect_refused("", "t.json: the file is empty");
    expect_refused("  \n", "t.json: the file is empty");
    expect_refused("SQLite format 3",
                   "t.json: not a profiler trace: JSON begins with '{', this file does not");
    expect_refused("{\"schema\": 1}", "t.json: not a profiler trace: it has no traceEvents");
    expect_refused("{\"traceEvents\": 3}",
                   "t.json: byte 1: not a profiler trace: traceEvents is not an array");
    expect_refused("{\"traceEvents\": [], \"traceEvents\": []}",
                   "t.json: byte 20: traceEvents is there twice");
    expect_refused("{\"traceEvents\": []} x", "t.json: byte 20: text after the end of the trace");
    expect_refused("{a}", "t.json: byte 1: not JSON: expected a member");
    expect_refused("{\"a\":1 \"b\":2}", "t.json: byte 7: expected ',' or '}' after a member");
}

TEST(a_truncated_trace_is_refused)
{
    const char text[] = "{\"traceEvents\": [\n  {\"name\": \"a\"},\n  {\"name\": \"b\"}\n  ]}";
    for (size_t length = 1; length < sizeof text - 1; length++) {
        int events = 0;
        open_bytes(text, length);
        assert_fails_naming(read_all(&events), STATUS_FORMAT, "truncated");
        close_trace();
    }
    expect_refused("{\"traceEvents\": [\n  {\"name\": \"a\"},\n  {\"na",
                   "t.json: truncated: it ends at byte 41 inside an event (was the profiler "
                   "stopped before it was done writing?)");
}

TEST(a_malformed_event_on_a_shared_line_ends_the_reading)
{
    expect_refused("{\"traceEvents\":[{\"name\":\"a\"b\"},{}]}",
                   "t.json: byte 16: event 0 is malformed, and events are not one below the other, "
                   "so that reading cannot go on after it");
}

/// Some megabytes: short events, long ones, malformed ones of which one is larger than a batch.
static void write_large(text_buffer *text)
{
    text_append(text, "{\"a\": 1, \"traceEvents\": [");
    for (int number = 0; number < 40000; number++) {
        const bool is_bad = number % 997 == 996;
        text_format(text, "%s\n  {\"ts\":%d,\"name\":\"%s", number > 0 ? "," : "", number,
                    is_bad ? "a\"b" : "a");
        const int length = number == 19939 ? 1 << 21 : number % 10000 < 5000 ? 0 : number % 500;
        text_format(text, "%*s\"}", length, "");
    }
    text_append(text, "\n  ]}\n");
}

/// A hash of what is read of the trace to its end, or to its failure.
static uint64_t hash_of_trace(status *result)
{
    uint64_t hash = FILE_HASH_START;
    while ((*result = trace_json_next(trace.json, &trace.item, &why)) == STATUS_OK) {
        const trace_json_event *event = &trace.item->event;
        if (trace.item->kind == TRACE_JSON_END) break;
        if (trace.item->kind != TRACE_JSON_EVENT) continue;
        hash = file_hash(hash, &event->index, sizeof event->index);
        hash = file_hash(hash, event->ts.bytes, event->ts.length);
        hash = file_hash(hash, event->name.bytes, event->name.length);
    }
    return hash;
}

static void open_file(const char *path)
{
    assert_ok(trace_stream_open(path, &trace.input, &why));
    trace.json = trace_json_open(trace.input, "t.json", NULL, NULL);
}

TEST(a_file_that_is_scanned_ahead_says_what_its_bytes_say)
{
    char path[64];
    text_buffer text = {0};
    snprintf(path, sizeof path, "%s/dynmo-test-XXXXXX", P_tmpdir);
    const int file = mkstemp(path);
    write_large(&text);
    assert_true(file >= 0 && write(file, text.bytes, text.length) == (ssize_t)text.length);
    // The whole, and cut within the last event.
    for (size_t cut = 0; cut <= 10; cut += 10) {
        status of_bytes = STATUS_OK;
        status of_file = STATUS_OK;
        assert_int_equal(ftruncate(file, (off_t)(text.length - cut)), 0);
        open_bytes(text.bytes, text.length - cut);
        const uint64_t hash = hash_of_trace(&of_bytes);
        if (cut == 0) assert_int_equal(trace.item->malformed_count, 40);
        close_trace();
        open_file(path);
        assert_true(hash == hash_of_trace(&of_file));
        assert_int_equal(of_bytes, cut == 0 ? STATUS_OK : STATUS_FORMAT);
        assert_int_equal(of_file, of_bytes);
        if (cut == 0) assert_int_equal(trace.item->event_count, 40000);
        close_trace();
    }
    // Nobody wants the rest.
    open_file(path);
    assert_ok(trace_json_next(trace.json, &trace.item, &why));
    close_trace();
    close(file);
    unlink(path);
    text_free(&text);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
