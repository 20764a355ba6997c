#include "exec/model/training_text.h"

#include "base/file.h"
#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>

enum {
    TEXT_PURPOSE = 0x7465, // keeps the draws of the text apart from the other draws of a seed
};
static const size_t text_bytes_max = (size_t)1 << 30;

status exec_training_text_read(const char *path, int sequence_length, exec_training_text *text,
                               error_message *err)
{
    char *bytes = NULL;
    size_t byte_count = 0;
    TRY(file_read(path, text_bytes_max, &bytes, &byte_count, err));
    const size_t needed = (size_t)sequence_length + 1;
    if (byte_count < needed) {
        free(bytes);
        return error_set(err, STATUS_INVALID,
                         "%s: text has %zu bytes; a sequence of %d tokens needs %zu", path,
                         byte_count, sequence_length, needed);
    }
    *text = (exec_training_text){.bytes = (unsigned char *)bytes, .byte_count = byte_count};
    return STATUS_OK;
}

void exec_training_text_free(exec_training_text *text)
{
    free(text->bytes);
    *text = (exec_training_text){0};
}

/// A generator per key: each number of the key picks the seed of the next.
static rng generator_of(const exec_text_batch *batch)
{
    rng of_seed = rng_init(batch->seed, TEXT_PURPOSE);
    rng of_iteration = rng_init(rng_next(&of_seed), (uint64_t)batch->iteration);
    return rng_init(rng_next(&of_iteration), (uint64_t)batch->microbatch);
}

void exec_training_text_draw(const exec_training_text *text, const exec_text_batch *batch,
                             int *token, int *target)
{
    assert(text->byte_count > (size_t)batch->sequence_length);
    const uint64_t begin_count = text->byte_count - (size_t)batch->sequence_length;
    rng generator = generator_of(batch);
    for (int sequence = 0; sequence < batch->sequence_count; sequence++) {
        const unsigned char *bytes = text->bytes + rng_below(&generator, begin_count);
        for (int position = 0; position < batch->sequence_length; position++) {
            *token++ = bytes[position];
            *target++ = bytes[position + 1];
        }
    }
}
