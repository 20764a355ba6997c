/// Any bytes as a plan file: refused with a message, or read into a plan that is written and read
/// back the same.
#include "balance/plan.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

static void write_plan(const bal_plan *plan, text_buffer *out)
{
    json_writer writer = json_writer_init(out);
    bal_plan_write(plan, &writer);
}

static void check_round_trip(const bal_plan *plan, arena *memory)
{
    text_buffer first = {0};
    text_buffer second = {0};
    json_document *document = NULL;
    bal_plan again;
    error_message err = {0};
    write_plan(plan, &first);
    assert(json_open_bytes("again", first.bytes, first.length, &document, &err) == STATUS_OK);
    assert(bal_plan_read(json_root(document), memory, &again, &err) == STATUS_OK);
    write_plan(&again, &second);
    assert(strcmp(first.bytes, second.bytes) == 0);
    json_close(document);
    text_free(&first);
    text_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    json_document *document = NULL;
    bal_plan plan;
    error_message err = {0};
    arena *memory = arena_create(4096);
    assert(memory != NULL);
    if (json_open_bytes("input", (const char *)bytes, count, &document, &err) == STATUS_OK) {
        if (bal_plan_read(json_root(document), memory, &plan, &err) == STATUS_OK) {
            check_round_trip(&plan, memory);
        } else {
            assert(err.message[0] != '\0');
        }
        json_close(document);
    }
    arena_destroy(memory);
    return 0;
}
