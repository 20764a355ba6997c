/// Any bytes as a calibration: refused with a message, or one that predicts and draws.
#include "analysis/calibration/calibration.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    ana_calibration read;
    error_message err = {0};
    arena *memory = arena_create(4096);
    assert(memory != NULL);
    if (ana_calibration_open_bytes("input", (const char *)bytes, count, memory, &read, &err) ==
        STATUS_OK) {
        const ana_run_shape shape = {8, 64, 2, 1024, 16, 24, 1024, 51200, 2, 2, 2};
        const size_t size = (size_t)read.coefficient_count;
        double *drawn = arena_array(memory, size * (size + 3), sizeof *drawn);
        double *scratch = drawn + size;
        double *factor = scratch + 2 * size;
        const ana_prediction found = ana_calibration_predict(&read, &shape, scratch);
        assert(!isnan(found.middle_ms) && found.deviation >= 0);
        if (ana_calibration_factorise(&read, factor, &err) == STATUS_OK) {
            ana_calibration_draw(&read, factor, 1, 0, drawn);
            ana_calibration_factor(&read, drawn, &shape, 1, 0, 0, scratch);
        }
    } else {
        assert(err.message[0] != '\0');
    }
    arena_destroy(memory);
    return 0;
}
