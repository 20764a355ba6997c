/// Any bytes as what a study says of uncertainty: refused with a message, or ranges from which
/// values can be drawn.
#include "analysis/whatif/uncertainty.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <math.h>

static void draw(const ana_range *range)
{
    const double low = range->low;
    const double high = range->high;
    assert(isfinite(low) && isfinite(high) && low <= high);
    for (int step = 1; step < 8; step++) {
        const double value = ana_range_quantile(range, step / 8.0);
        const double rounding = 1e-8 * fmax(fabs(low), fabs(high));
        assert(value >= low - rounding && value <= high + rounding);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    json_document *document = NULL;
    ana_uncertainty uncertainty;
    error_message err = {0};
    if (json_open_bytes("input", (const char *)bytes, count, &document, &err) != STATUS_OK) {
        return 0;
    }
    if (ana_uncertainty_read(json_root(document), &uncertainty, &err) == STATUS_OK) {
        assert(ana_uncertainty_check(&uncertainty, &err) == STATUS_OK);
        for (int range = 0; range < uncertainty.range_count; range++) {
            draw(&uncertainty.ranges[range].range);
        }
    } else {
        assert(err.message[0] != '\0');
    }
    json_close(document);
    return 0;
}
