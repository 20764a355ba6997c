/// json: what is refused and how it is named; what is written reads back the same.
#include "base/json.h"
#include "tests/test.h"

#include <string.h>

static void assert_refused(const char *document_text, const char *message)
{
    json_document *document = NULL;

    assert_fails(json_open_bytes("f.json", document_text, strlen(document_text), &document, &why),
                 STATUS_FORMAT, message);
    assert_null(document);
}

TEST(malformed_documents_are_refused_with_their_line)
{
    assert_refused("{\"a\":\n1,}", "f.json:2: not valid JSON");
    assert_refused("{} {}", "f.json:1: text after the end of the document");
    assert_refused("{\"a\":1,\"b\":{\"c\":1,\"c\":2}}",
                   "f.json: key 'c' appears twice in one object");
    assert_refused("{\"n\":9007199254740993}",
                   "f.json:1: n: integer 9007199254740993 exceeds 2^53 = 9007199254740992");
    assert_refused("{\"n\":[1e308,-1e400]}", "f.json: array: the number exceeds 1.79769e+308");
    assert_refused("{\"n\":1e400}", "f.json: n: the number exceeds 1.79769e+308");
    assert_refused("", "f.json:1: not valid JSON");
    static const char *const numbers[] = {"[01]", "[-01]",   "[1.]",  "[.5]",   "[1e]",   "[1e+]",
                                          "[+1]", "[1.5.2]", "[1-2]", "[0x10]", "[1e5.5]"};
    for (size_t index = 0; index < sizeof numbers / sizeof numbers[0]; index++) {
        assert_refused(numbers[index], "f.json:1: not valid JSON");
    }
    assert_refused("{\n\"a\":\"\xff\"}", "f.json:2: byte 0xff is not UTF-8");
    assert_refused("{\"a\":1}\xe2\x82", "f.json:1: byte 0xe2 is not UTF-8");
    assert_refused("{\"a\":\n\"x\\u0000\"}", "f.json:2: a: the text holds \\u0000");
    assert_refused("{\"a\":\"x\",\n\"b\\u0000\" :1}", "f.json:2: a key holds \\u0000");
    assert_refused("SQLite format 3", "f.json: is a SQLite file, not JSON");
    assert_refused("\x1f\x8b\x08", "f.json: is compressed by gzip, not JSON");
    char deep[200];
    memset(deep, '[', sizeof deep);
    deep[sizeof deep - 1] = '\0';
    assert_refused(deep, "f.json:1: nested deeper than 64 levels");
}

TEST(getters_name_the_path_of_what_they_refuse)
{
    static const char bytes[] = "{\"a\":{\"b\":[1,2.5,-3]},\"s\":\"x\"}";
    static const char *const allowed[] = {"a", "stages"};
    json_document *document = NULL;
    int64_t value = 42;
    const char *string = NULL;
    assert_ok(json_open_bytes("f.json", bytes, strlen(bytes), &document, &why));
    const json_value root = json_root(document);
    const json_value b = json_member(json_member(root, "a"), "b");

    assert_fails(json_int64(json_element(b, 1), 0, 9, &value, &why), STATUS_FORMAT,
                 "f.json: a.b[1]: 2.5 is not an integer");
    assert_fails(json_int64(json_element(b, 2), 0, 9, &value, &why), STATUS_FORMAT,
                 "f.json: a.b[2]: -3 is outside [0, 9]");
    assert_fails(json_int64(json_member(json_member(root, "a"), "c"), 0, 9, &value, &why),
                 STATUS_FORMAT, "f.json: a.c: missing; needs an integer");
    assert_fails(json_int64_array(b, 2, 0, 9, &value, &why), STATUS_FORMAT,
                 "f.json: a.b: has 3 entries, needs 2");
    assert_fails(json_check_keys(root, allowed, 2, &why), STATUS_FORMAT,
                 "f.json: unknown key 's'; known: a, stages");
    assert_int_equal(value, 42);
    assert_ok(json_string(json_member(root, "s"), &string, &why));
    assert_string_equal(string, "x");

    json_close(document);
}

TEST(what_is_written_reads_back_the_same)
{
    text_buffer out = {0};
    json_writer writer = json_writer_init(&out);

    json_begin_object(&writer);
    json_put_int64(&writer, "n", INT64_MAX);
    json_put_double(&writer, "x", 0.1);
    json_put_string(&writer, "s", "a\"b\\\n\x01");
    json_write_key(&writer, "e");
    json_begin_array(&writer);
    json_end_array(&writer);
    json_put_int64_array(&writer, "v", (const int64_t[]){1, -2}, 2);
    json_end_object(&writer);

    assert_string_equal(out.bytes, "{\"n\":9223372036854775807,\"x\":0.1,"
                                   "\"s\":\"a\\\"b\\\\\\n\\u0001\",\"e\":[],\"v\":[1,-2]}");
    text_free(&out);
}

static void assert_written(const char *value, const char *expected)
{
    text_buffer out = {0};
    json_writer writer = json_writer_init(&out);

    json_put_string(&writer, NULL, value);

    assert_string_equal(out.bytes, expected);
    text_free(&out);
}

/// File names hold any bytes; a reader of the document refuses all of it for one of them.
TEST(bytes_that_are_not_utf8_are_replaced)
{
    assert_written("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                   "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    assert_written("a\xff"
                   "b",
                   "\"a\\ufffdb\"");
    assert_written("\xe2\x82", "\"\\ufffd\\ufffd\"");            // cut off
    assert_written("\xc0\x80", "\"\\ufffd\\ufffd\"");            // overlong
    assert_written("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""); // a surrogate
    assert_written("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

TEST(a_double_above_2_53_is_written_as_one_and_read_back)
{
    text_buffer out = {0};
    json_writer writer = json_writer_init(&out);
    json_document *document = NULL;
    double value = 0;

    json_put_double(&writer, NULL, 66666666666666664.0);

    assert_string_equal(out.bytes, "66666666666666664.0");
    assert_ok(json_open_bytes("f.json", out.bytes, out.length, &document, NULL));
    assert_ok(json_double(json_root(document), 0, 1e300, &value, NULL));
    assert_true(value == 66666666666666664.0);
    json_close(document);
    text_free(&out);
}

TEST(as_deep_as_is_read_can_be_written)
{
    char deepest[2 * JSON_DEPTH_MAX + 1];
    memset(deepest, '[', JSON_DEPTH_MAX);
    memset(deepest + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    deepest[2 * JSON_DEPTH_MAX] = '\0';
    text_buffer out = {0};
    json_writer writer = json_writer_init(&out);
    json_document *document = NULL;

    for (int level = 0; level < JSON_DEPTH_MAX; level++) {
        json_begin_array(&writer);
    }
    for (int level = 0; level < JSON_DEPTH_MAX; level++) {
        json_end_array(&writer);
    }

    assert_string_equal(out.bytes, deepest);
    assert_ok(json_open_bytes("f.json", out.bytes, out.length, &document, NULL));
    json_close(document);
    text_free(&out);
}

static void assert_changed(const char *document, const char *changes, const char *expected)
{
    text_buffer out = {0};

    assert_ok(json_change("f.json", document, changes, &out, NULL));

    assert_string_equal(out.bytes, expected);
    text_free(&out);
}

TEST(changes_replace_add_and_remove_at_their_paths)
{
    assert_changed("{\"a\":{\"b\":1,\"c\":9007199254740991}}", "{\"a.b\":[2,3]}",
                   "{\"a\":{\"c\":9007199254740991,\"b\":[2,3]}}");
    assert_changed("{\"a\":{\"b\":1}}", "{\"a.b\":null,\"d.e.f\":\"x\"}",
                   "{\"a\":{},\"d\":{\"e\":{\"f\":\"x\"}}}");
    assert_changed("{\"a\":25000000000}", "{}", "{\"a\":25000000000}");
}

static void assert_change_refused(const char *document, const char *changes, const char *message)
{
    text_buffer out = {0};

    assert_fails(json_change("f.json", document, changes, &out, &why), STATUS_FORMAT, message);
    assert_null(out.bytes);
}

TEST(changes_that_cannot_be_made_are_refused)
{
    assert_change_refused("{\"a\":1}", "{\"a.b\":2}", "f.json: 'a' is no object to change 'b' in");
    assert_change_refused("[1]", "{\"a\":2}",
                          "f.json: only an object can be changed, by an object");
    assert_change_refused("{\"a\":1}", "{\"a\"}", "changes:1: not valid JSON");
    assert_change_refused("{\"a\"}", "{}", "f.json:1: not valid JSON");
}

static void assert_document_is(const json_document *document, const char *expected)
{
    text_buffer out = {0};
    json_writer writer = json_writer_init(&out);

    json_put_value(&writer, NULL, json_root(document));

    assert_string_equal(out.bytes, expected);
    text_free(&out);
}

TEST(what_was_applied_to_a_document_is_reverted)
{
    static const char *const changes[] = {"{\"a.x\":9}",
                                          "{\"a.y\":9,\"b\":null}",
                                          "{\"a.z\":9,\"a.x\":8,\"a.y\":7}",
                                          "{\"a.x\":{\"w\":1},\"a\":5}",
                                          "{\"q.r.s\":1,\"q.r.t\":2,\"q\":null}",
                                          "{\"a.y\":0,\"b.c\":0}"};
    const char *text = "{\"a\":{\"x\":1,\"y\":2,\"z\":3},\"b\":4}";
    json_document *document = NULL;
    assert_ok(json_open_bytes("f.json", text, strlen(text), &document, NULL));
    assert_ok(json_apply(document, "{\"a.y\":null,\"b\":5}", NULL));
    assert_document_is(document, "{\"a\":{\"x\":1,\"z\":3},\"b\":5}");

    for (int index = 0; index < 6; index++) {
        json_revert(document);
        assert_document_is(document, text);
        const status expected = index < 5 ? STATUS_OK : STATUS_FORMAT;
        assert_int_equal(json_apply(document, changes[index], NULL), expected);
        if (index % 2 == 0) assert_ok(json_apply(document, "{\"a\":{},\"c\":{}}", NULL));
    }

    json_close(document);
}

TEST(a_value_is_written_as_it_stands_and_its_leaves_by_their_paths)
{
    const char *text = "{\"a\":{\"b\":[1,{\"c\":2.5}],\"d\":{\"e\":null,\"f\":{}}},\"g\":\"h\"}";
    json_document *document = NULL;
    text_buffer out = {0};
    json_writer writer = json_writer_init(&out);
    assert_ok(json_open_bytes("f.json", text, strlen(text), &document, NULL));
    const json_value a = json_member(json_root(document), "a");

    json_begin_array(&writer);
    json_put_value(&writer, NULL, a);
    json_put_value(&writer, NULL, json_member(json_root(document), "z"));
    json_begin_object(&writer);
    json_put_leaves(&writer, "x.a", a);
    json_put_leaves(&writer, "x.g", json_member(json_root(document), "g"));
    json_end_object(&writer);
    json_end_array(&writer);

    assert_string_equal(out.bytes, "[{\"b\":[1,{\"c\":2.5}],\"d\":{\"e\":null,\"f\":{}}},null,"
                                   "{\"x.a.b\":[1,{\"c\":2.5}],\"x.a.d.e\":null,\"x.g\":\"h\"}]");
    json_close(document);
    text_free(&out);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
