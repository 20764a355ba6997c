/// Any bytes as a file of counts whose run is not known yet, in both formats: refused with a
/// message, or an outline with microbatches and an iteration.
#include "analysis/diagnosis/counts_run.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const ana_counts_format formats[] = {ANA_COUNTS_CSV, ANA_COUNTS_MEGATRON};
    arena *memory = arena_create(1 << 12);
    for (int format = 0; format < 2; format++) {
        ana_counts_outline outline = {.row_count = -7};
        error_message err = {0};
        model_line_reader *reader = model_lines_open_bytes("fuzz", (const char *)bytes, count);
        const status result =
            ana_counts_outline_read(reader, "fuzz", formats[format], memory, &outline, &err);
        model_lines_close(reader);
        if (result == STATUS_OK) {
            assert(outline.row_count >= 1 && outline.last_iteration >= 0);
            assert(outline.local_count >= 1 || formats[format] == ANA_COUNTS_CSV);
        } else {
            assert(err.code == result && err.message[0] != '\0' && outline.row_count == -7);
        }
        arena_reset(memory);
    }
    arena_destroy(memory);
    return 0;
}
