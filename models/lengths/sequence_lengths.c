#include "models/lengths/sequence_lengths.h"

#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)1 << 30)

int model_sequence_length(const model_sequence_lengths *lengths, int64_t index)
{
    if (lengths->given != NULL) return lengths->given[index % lengths->given_count];
    rng random = rng_init(lengths->seed, (uint64_t)index);
    const double spread = lengths->spread;
    const double drawn =
        lengths->mean * rng_portable_exp(spread * (rng_normal(&random) - spread / 2));
    if (drawn >= lengths->longest) return lengths->longest;
    return drawn < 1.5 ? 1 : (int)(drawn + 0.5);
}

/// A file while it is read.
typedef struct reading {
    const char *name;
    const char *at;
    const char *end;
    int64_t line;
    arena *memory;
    int32_t *lengths; // [count]
    int64_t count;
} reading;

static status refuse(const reading *file, error_message *err, const char *what, int64_t value)
{
    return error_set(err, STATUS_FORMAT, "%s:%" PRId64 ": %s %" PRId64, file->name, file->line,
                     what, value);
}

static status add(reading *file, int64_t tokens, error_message *err)
{
    if (tokens < 1 || tokens > MODEL_SEQUENCE_TOKENS_MAX) {
        return error_set(err, STATUS_FORMAT,
                         "%s:%" PRId64 ": a length of %" PRId64 " tokens, expected 1 to %d",
                         file->name, file->line, tokens, MODEL_SEQUENCE_TOKENS_MAX);
    }
    if (file->count == MODEL_SEQUENCES_MAX) {
        return error_set(err, STATUS_INVALID, "%s: more than %d lengths", file->name,
                         MODEL_SEQUENCES_MAX);
    }
    file->lengths =
        arena_grow(file->memory, file->lengths, (size_t)file->count, sizeof *file->lengths);
    file->lengths[file->count++] = (int32_t)tokens;
    return STATUS_OK;
}

static bool is_space(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n' || letter == ',';
}

/// Passes over white space and commas, and counts lines.
static void skip_space(reading *file)
{
    while (file->at < file->end && is_space(*file->at)) {
        file->line += *file->at++ == '\n';
    }
}

/// A number of digits only, which white space, a comma or a bracket ends.
static status read_number(reading *file, int64_t *number, error_message *err)
{
    const char *from = file->at;
    *number = 0;
    while (file->at < file->end && *file->at >= '0' && *file->at <= '9' && file->at - from < 18) {
        *number = *number * 10 + (*file->at++ - '0');
    }
    const bool ends = file->at == file->end || is_space(*file->at) || *file->at == ']';
    if (file->at > from && ends) return STATUS_OK;
    const char *word = from; // to its end, or as much of it as a message has room for
    while (word < file->end && !is_space(*word) && *word != ']' && word - from < 20) {
        word++;
    }
    return error_set(err, STATUS_FORMAT, "%s:%" PRId64 ": '%.*s' is no whole number", file->name,
                     file->line, (int)(word - from), from);
}

/// Lengths, or offsets where the first is 0.
static status read_array(reading *file, error_message *err)
{
    int64_t before = 0;
    bool is_offsets = false;
    bool is_first = true;
    file->at++;
    for (skip_space(file); file->at < file->end && *file->at != ']'; skip_space(file)) {
        int64_t number = 0;
        TRY(read_number(file, &number, err));
        if (is_first) is_offsets = number == 0;
        if (is_offsets && !is_first) {
            if (number <= before) return refuse(file, err, "offsets that do not rise at", number);
            TRY(add(file, number - before, err));
        } else if (!is_offsets) {
            TRY(add(file, number, err));
        }
        before = number;
        is_first = false;
    }
    if (file->at == file->end) return refuse(file, err, "an array without its end, number", 0);
    file->at++;
    return STATUS_OK;
}

/// Puts the offsets of a batch where its lengths go.
static status add_offsets(reading *file, json_value offsets, error_message *err)
{
    json_value element = json_element(offsets, 0);
    int64_t before = 0;
    TRY(json_int64(element, 0, 0, &before, err));
    for (element = json_next(element); element.node != NULL; element = json_next(element)) {
        int64_t offset = 0;
        TRY(json_int64(element, before + 1, before + MODEL_SEQUENCE_TOKENS_MAX, &offset, err));
        TRY(add(file, offset - before, err));
        before = offset;
    }
    return STATUS_OK;
}

static status add_object(reading *file, const char *place, size_t bytes, error_message *err)
{
    json_document *line = NULL;
    TRY(json_open_bytes(place, file->at, bytes, &line, err));
    const json_value offsets = json_member(json_root(line), "cu_seqlens");
    int64_t tokens = 0;
    status result = STATUS_OK;
    if (!json_is_missing(offsets)) {
        result = add_offsets(file, offsets, err);
    } else {
        result = json_int64(json_member(json_root(line), "length"), 1, MODEL_SEQUENCE_TOKENS_MAX,
                            &tokens, err);
        if (result == STATUS_OK) result = add(file, tokens, err);
    }
    json_close(line);
    return result;
}

static status read_object(reading *file, error_message *err)
{
    char place[256];
    const char *end = memchr(file->at, '\n', (size_t)(file->end - file->at));
    if (end == NULL) end = file->end;
    snprintf(place, sizeof place, "%.200s:%" PRId64, file->name, file->line);
    TRY(add_object(file, place, (size_t)(end - file->at), err));
    file->at = end;
    return STATUS_OK;
}

static status read_all(reading *file, error_message *err)
{
    for (skip_space(file); file->at < file->end; skip_space(file)) {
        int64_t number = 0;
        if (*file->at == '{') {
            TRY(read_object(file, err));
        } else if (*file->at == '[') {
            TRY(read_array(file, err));
        } else {
            TRY(read_number(file, &number, err));
            TRY(add(file, number, err));
        }
    }
    if (file->count > 0) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: no length of a sequence in it", file->name);
}

status model_sequence_lengths_parse(const char *name, const char *bytes, size_t length,
                                    arena *memory, model_sequence_lengths *lengths,
                                    error_message *err)
{
    reading file = {.name = name, .at = bytes, .end = bytes + length, .line = 1, .memory = memory};
    TRY(read_all(&file, err));
    lengths->given = file.lengths;
    lengths->given_count = file.count;
    return STATUS_OK;
}

status model_sequence_lengths_read(const char *path, arena *memory, model_sequence_lengths *lengths,
                                   error_message *err)
{
    char *bytes = NULL;
    size_t length = 0;
    TRY(file_read(path, FILE_BYTES_MAX, &bytes, &length, err));
    const status result = model_sequence_lengths_parse(path, bytes, length, memory, lengths, err);
    free(bytes);
    return result;
}
