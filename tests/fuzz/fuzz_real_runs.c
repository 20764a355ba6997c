/// Any bytes as a table of measured runs to validate: refused with a message, or rows that are
/// refused or become studies that can be parsed.
#include "analysis/validate/real_study.h"
#include "base/json.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    table from;
    ana_real_runs runs;
    error_message err = {0};
    arena *memory = arena_create(4096);
    status read = table_open_bytes("input", (const char *)bytes, count, memory, &from, &err);
    if (read == STATUS_OK) read = ana_real_runs_read(&from, "", "tp=2", memory, &runs, &err);
    assert(read == STATUS_OK || err.message[0] != '\0');
    for (int row = 0; read == STATUS_OK && row < runs.source.row_count; row++) {
        ana_real_measured measured = {0};
        text_buffer text = {0};
        error_message inner = {0};
        if (ana_real_study_write(&runs, row, ana_real_recompute(&runs, row, 0), memory, &text,
                                 &measured, &inner) == STATUS_OK) {
            json_document *document = NULL;
            assert(measured.iteration_ns > 0 && measured.gpu_count > 0);
            if (json_open_bytes("study", text.bytes, strlen(text.bytes), &document, &inner) ==
                STATUS_OK) {
                json_close(document);
            }
        } else {
            assert(inner.message[0] != '\0');
        }
        text_free(&text);
    }
    arena_destroy(memory);
    return 0;
}
