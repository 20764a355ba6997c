/// Any bytes as a hardware file: refused with a message, or read within its limits.
#include "models/cost/hardware.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    json_document *document = NULL;
    model_hardware hardware;
    error_message err = {0};
    arena *memory = arena_create(4096);
    assert(memory != NULL);
    if (json_open_bytes("input", (const char *)bytes, count, &document, &err) == STATUS_OK) {
        if (model_hardware_read(document, "input", memory, &hardware, &err) == STATUS_OK) {
            assert(hardware.gemm_efficiency > 0 && hardware.gemm_efficiency <= 1);
            assert(hardware.memory_bytes > 0 && hardware.gpus_per_node > 0);
            assert(hardware.intra_node.bytes_per_s > 0 && hardware.inter_node.latency_ns >= 0);
        } else {
            assert(err.message[0] != '\0');
        }
        json_close(document);
    }
    arena_destroy(memory);
    return 0;
}
