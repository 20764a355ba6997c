/// Any bytes as what nccl-tests measured: refused with a message, or a link that a study can have.
#include "analysis/calibration/measured_link.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>

static void check_link(const ana_measured_link *found)
{
    assert(found->link.latency_ns >= 0 && found->link.bytes_per_s >= 1);
    assert(isfinite(found->latency_error_ns) && found->latency_error_ns >= 0);
    assert(isfinite(found->rate_error_bytes_s) && found->rate_error_bytes_s >= 0);
    assert(found->reach > 1 && found->size_count >= ANA_LINK_SIZES_MIN);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    json_document *document = NULL;
    ana_message_times times;
    ana_measured_link found;
    error_message err = {0};
    arena *memory = arena_create(4096);
    assert(memory != NULL);
    status read = json_open_bytes("input", (const char *)bytes, count, &document, &err);
    if (read == STATUS_OK) read = ana_message_times_read(json_root(document), memory, &times, &err);
    if (read == STATUS_OK) read = ana_measured_link_fit(&times, &found, &err);
    if (read == STATUS_OK) {
        check_link(&found);
    } else {
        assert(err.message[0] != '\0');
    }
    json_close(document);
    arena_destroy(memory);
    return 0;
}
