/// Any bytes as tokens per expert, in both formats: refused with a message, or a complete table of
/// counts that are not negative.
#include "models/experts/expert_counts.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

static const bool is_moe[] = {false, true, true};
static const model_counts_shape shape = {
    .layer_count = 3, .is_moe = is_moe, .expert_count = 2, .microbatch_count = 2};

static void check_counts(const model_expert_counts *counts)
{
    assert(counts->sample_count >= 1);
    for (int sample = 0; sample < counts->sample_count; sample++) {
        assert(sample == 0 || counts->iteration[sample] > counts->iteration[sample - 1]);
        assert(model_expert_counts_sample(counts, counts->iteration[sample]) == sample);
        for (int layer = 1; layer < 3; layer++) {
            for (int microbatch = 0; microbatch < 2; microbatch++) {
                const int32_t *row = model_expert_counts_row(counts, sample, layer, microbatch);
                assert(row[0] >= 0 && row[1] >= 0 && (row[0] > 0 || row[1] > 0));
            }
        }
    }
}

static void check(status result, const error_message *err, const model_expert_counts *counts)
{
    if (result == STATUS_OK) {
        check_counts(counts);
    } else {
        assert(result == STATUS_FORMAT && err->code == STATUS_FORMAT && err->message[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create(1 << 12);
    model_expert_counts counts;
    error_message err = {0};
    assert(memory != NULL);
    const char *text = (const char *)bytes;

    check(model_expert_counts_csv_bytes("fuzz", text, count, &shape, memory, &counts, &err), &err,
          &counts);
    arena_reset(memory);
    check(model_expert_counts_megatron_bytes("fuzz", text, count, &shape, memory, &counts, &err),
          &err, &counts);

    arena_destroy(memory);
    return 0;
}
