/// Any bytes as JSON: refused with a message, or read; and what was read, written and read again,
/// is written the same.
#include "base/json.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void write_scalar(json_writer *writer, json_value value)
{
    int64_t integer = 0;
    double real = 0;
    bool truth = false;
    const char *string = NULL;
    if (json_int64(value, -JSON_INTEGER_MAX, JSON_INTEGER_MAX, &integer, NULL) == STATUS_OK) {
        json_put_int64(writer, NULL, integer);
    } else if (json_double(value, -INFINITY, INFINITY, &real, NULL) == STATUS_OK) {
        json_put_double(writer, NULL, real);
    } else if (json_bool(value, &truth, NULL) == STATUS_OK) {
        json_put_bool(writer, NULL, truth);
    } else if (json_string(value, &string, NULL) == STATUS_OK) {
        json_put_string(writer, NULL, string);
    } else {
        json_put_null(writer, NULL);
    }
}

/// Writes the document as it was read: containers are kept on a stack, with the next child of each.
static void write_document(const json_document *document, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    json_value open[JSON_DEPTH_MAX];
    int next[JSON_DEPTH_MAX];
    int depth = 0;
    json_value value = json_root(document);
    for (;;) {
        if (json_is_object(value) || json_is_array(value)) {
            assert(depth < JSON_DEPTH_MAX);
            if (json_is_object(value)) {
                json_begin_object(&writer);
            } else {
                json_begin_array(&writer);
            }
            open[depth] = value;
            next[depth++] = 0;
        } else {
            write_scalar(&writer, value);
        }
        while (depth > 0 && next[depth - 1] == json_count(open[depth - 1])) {
            if (json_is_object(open[--depth])) {
                json_end_object(&writer);
            } else {
                json_end_array(&writer);
            }
        }
        if (depth == 0) return;
        value = json_element(open[depth - 1], next[depth - 1]++);
        if (json_is_object(open[depth - 1])) json_write_key(&writer, json_key(value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    json_document *first = NULL;
    json_document *second = NULL;
    text_buffer once = {0};
    text_buffer twice = {0};
    error_message err = {0};
    if (json_open_bytes("input", (const char *)bytes, count, &first, &err) != STATUS_OK) {
        assert(first == NULL && err.message[0] != '\0');
        return 0;
    }

    write_document(first, &once);
    assert(json_open_bytes("written", once.bytes, once.length, &second, &err) == STATUS_OK);
    write_document(second, &twice);

    assert(once.length == twice.length && memcmp(once.bytes, twice.bytes, once.length) == 0);
    text_free(&once);
    text_free(&twice);
    json_close(first);
    json_close(second);
    return 0;
}
