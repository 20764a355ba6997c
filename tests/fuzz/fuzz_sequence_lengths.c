/// Any bytes as lengths of sequences: refused with a message, or lengths within their limits.
#include "models/lengths/sequence_lengths.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    arena *memory = arena_create(1 << 12);
    char *text = arena_array(memory, count + 1, 1);
    model_sequence_lengths lengths = {0};
    error_message err = {0};
    if (count > 0) memcpy(text, bytes, count);
    if (model_sequence_lengths_parse("fuzz", text, count, memory, &lengths, &err) == STATUS_OK) {
        assert(lengths.given_count >= 1);
        for (int64_t sequence = 0; sequence < lengths.given_count; sequence++) {
            const int tokens = model_sequence_length(&lengths, sequence);
            assert(tokens >= 1 && tokens <= MODEL_SEQUENCE_TOKENS_MAX);
        }
    } else {
        assert(err.message[0] != '\0');
    }
    arena_destroy(memory);
    return 0;
}
