#include "exec/training/training_text.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>

enum {
    TEXT_PURPOSE = 0x7465, // keeps the draws of the text apart from the other draws of a seed
    SYNTHETIC_PURPOSE = 0x7379,
    SYNTHETIC_TOKENS = 1 << 20,
};
static const size_t text_bytes_max = (size_t)1 << 30;

static uint32_t token_at(const exec_training_text *text, size_t index)
{
    const unsigned char *bytes = text->bytes + index * (size_t)text->token_bytes;
    uint32_t token = 0;
    for (int byte = text->token_bytes - 1; byte >= 0; byte--) {
        token = token << 8 | bytes[byte];
    }
    return token;
}

static status check_tokens(const char *path, const exec_training_text *text, size_t byte_count,
                           const exec_model *model, error_message *err)
{
    const size_t needed = ((size_t)model->sequence_length + 1) * (size_t)text->token_bytes;
    if (byte_count < needed) {
        return error_set(err, STATUS_INVALID,
                         "%s: text has %zu bytes; a sequence of %d tokens needs %zu", path,
                         byte_count, model->sequence_length, needed);
    }
    if (byte_count % (size_t)text->token_bytes != 0) {
        return error_set(err, STATUS_INVALID, "%s: %zu bytes are no whole tokens of %d bytes", path,
                         byte_count, text->token_bytes);
    }
    for (size_t index = 0; index < text->token_count; index++) {
        if (token_at(text, index) < (uint32_t)model->vocabulary) continue;
        return error_set(err, STATUS_INVALID, "%s: token %zu is %u; the vocabulary has %d", path,
                         index, token_at(text, index), model->vocabulary);
    }
    return STATUS_OK;
}

status exec_training_text_read(const char *path, const exec_model *model, int token_bytes,
                               exec_training_text *text, error_message *err)
{
    char *bytes = NULL;
    size_t byte_count = 0;
    TRY(file_read(path, text_bytes_max, &bytes, &byte_count, err));
    exec_training_text read = {.bytes = (unsigned char *)bytes,
                               .token_count = byte_count / (size_t)token_bytes,
                               .token_bytes = token_bytes};
    const status result = check_tokens(path, &read, byte_count, model, err);
    if (result == STATUS_OK) {
        *text = read;
    } else {
        free(bytes);
    }
    return result;
}

void exec_training_text_make(const exec_model *model, exec_training_text *text)
{
    rng generator = rng_init(model->seed, SYNTHETIC_PURPOSE);
    *text = (exec_training_text){.token_count = SYNTHETIC_TOKENS + (size_t)model->sequence_length,
                                 .token_bytes = sizeof(uint32_t)};
    text->bytes = memory_array(text->token_count, sizeof(uint32_t));
    for (size_t index = 0; index < text->token_count; index++) {
        const uint64_t bound = 1 + rng_below(&generator, (uint64_t)model->vocabulary);
        const uint64_t token = rng_below(&generator, bound);
        for (size_t byte = 0; byte < sizeof(uint32_t); byte++) {
            text->bytes[index * sizeof(uint32_t) + byte] = (unsigned char)(token >> 8 * byte);
        }
    }
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
    assert(text->token_count > (size_t)batch->sequence_length);
    const uint64_t begin_count = text->token_count - (size_t)batch->sequence_length;
    rng generator = generator_of(batch);
    for (int sequence = 0; sequence < batch->sequence_count; sequence++) {
        const size_t begin = (size_t)rng_below(&generator, begin_count);
        for (size_t index = begin; index < begin + (size_t)batch->sequence_length; index++) {
            *token++ = (int)token_at(text, index);
            *target++ = (int)token_at(text, index + 1);
        }
    }
}

exec_packed_rows exec_packing_rows(const exec_packing *packing, int iteration, int replica,
                                   int microbatch)
{
    assert(iteration < packing->iteration_count && microbatch < packing->microbatch_count);
    const int64_t place =
        ((int64_t)iteration * packing->replica_count + replica) * packing->microbatch_count +
        microbatch;
    const int64_t first = packing->first_document[place];
    return (exec_packed_rows){
        .document_count = (int)(packing->first_document[place + 1] - first),
        .first_row = packing->first_row + first + place,
        .number = packing->number + first,
    };
}

int64_t exec_packing_tokens(const exec_packing *packing, int iteration)
{
    int64_t tokens = 0;
    for (int replica = 0; replica < packing->replica_count; replica++) {
        for (int microbatch = 0; microbatch < packing->microbatch_count; microbatch++) {
            const exec_packed_rows rows =
                exec_packing_rows(packing, iteration, replica, microbatch);
            tokens += rows.first_row[rows.document_count];
        }
    }
    return tokens;
}

void exec_packing_draw(const exec_packed_rows *rows, const exec_training_text *text, uint64_t seed,
                       int *token, int *target, int *position)
{
    for (int document = 0; document < rows->document_count; document++) {
        const int first = rows->first_row[document];
        const int64_t number = rows->number[document];
        const exec_text_batch batch = {.seed = seed,
                                       .iteration = (int)(number >> 31),
                                       .microbatch = (int)(number & INT32_MAX),
                                       .sequence_count = 1,
                                       .sequence_length = rows->first_row[document + 1] - first};
        exec_training_text_draw(text, &batch, token + first, target + first);
        for (int row = 0; row < batch.sequence_length; row++) {
            position[first + row] = row;
        }
    }
}
