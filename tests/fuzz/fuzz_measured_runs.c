/// Any bytes as a table of measured runs: refused with a message, or runs that can be trained.
#include "analysis/calibration/measured_runs.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    table from;
    ana_measured_runs runs;
    error_message err = {0};
    arena *memory = arena_create(4096);
    assert(memory != NULL);
    status read = table_open_bytes("input", (const char *)bytes, count, memory, &from, &err);
    if (read == STATUS_OK) read = ana_measured_runs_read(&from, 51200, memory, &runs, &err);
    if (read == STATUS_OK) {
        for (int run = 0; run < runs.source.row_count; run++) {
            const ana_run_shape *shape = &runs.shapes[run];
            assert(runs.iteration_ms[run] > 0 && ana_run_microbatches(shape) > 0);
            assert(shape->gpu_count ==
                   shape->tensor_degree * shape->data_degree * shape->pipeline_degree);
        }
    } else {
        assert(err.message[0] != '\0');
    }
    arena_destroy(memory);
    return 0;
}
