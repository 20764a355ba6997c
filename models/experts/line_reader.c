#include "models/experts/line_reader.h"
#include "base/arena.h"
#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1 << 12, PLACE_BYTES = 320 };

struct model_line_reader {
    FILE *file;        // NULL: bytes
    const char *bytes; // [length] not yet taken
    size_t length;
    const char *name;
    char *line; // [capacity]
    size_t capacity;
    int64_t number;
    bool is_cut;
    char place[PLACE_BYTES];
};

status model_lines_open(const char *path, model_line_reader **reader, error_message *err)
{
    FILE *file = NULL;
    TRY(file_open(path, &file, err));
    *reader = model_lines_open_bytes(path, NULL, 0);
    (*reader)->file = file;
    return STATUS_OK;
}

model_line_reader *model_lines_open_bytes(const char *name, const char *bytes, size_t length)
{
    model_line_reader *opened = memory_array(1, sizeof *opened);
    *opened = (model_line_reader){.name = name, .bytes = bytes, .length = length};
    return opened;
}

void model_lines_close(model_line_reader *reader)
{
    if (reader == NULL) return;
    if (reader->file != NULL) fclose(reader->file);
    free(reader->line);
    free(reader);
}

/// The next byte, or EOF.
static int take_byte(model_line_reader *reader)
{
    if (reader->file != NULL) return getc(reader->file);
    if (reader->length == 0) return EOF;
    reader->length--;
    return (unsigned char)*reader->bytes++;
}

static status reserve(model_line_reader *reader, size_t length, error_message *err)
{
    if (length < reader->capacity) return STATUS_OK;
    if (length >= MODEL_LINE_BYTES_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: a line is longer than %d bytes", reader->place,
                         MODEL_LINE_BYTES_MAX);
    }
    const size_t capacity = reader->capacity == 0 ? FIRST_CAPACITY : 2 * reader->capacity;
    char *grown = memory_resize(reader->line, capacity, 1);
    reader->line = grown;
    reader->capacity = capacity;
    return STATUS_OK;
}

status model_lines_next(model_line_reader *reader, char **line, error_message *err)
{
    size_t length = 0;
    reader->number++;
    snprintf(reader->place, sizeof reader->place, "%.280s:%" PRId64, reader->name, reader->number);
    int byte = take_byte(reader);
    const bool is_end = byte == EOF;
    while (byte != EOF && byte != '\n') {
        if (byte == 0) {
            return error_set(err, STATUS_FORMAT, "%s: a byte 0 in a text file", reader->place);
        }
        TRY(reserve(reader, length + 1, err));
        reader->line[length++] = (char)byte;
        byte = take_byte(reader);
    }
    if (byte == EOF && reader->file != NULL && ferror(reader->file)) {
        return error_set(err, STATUS_IO, "%s: %s", reader->name, strerror(errno));
    }
    TRY(reserve(reader, length, err));
    if (length > 0 && reader->line[length - 1] == '\r') length--;
    reader->line[length] = '\0';
    reader->is_cut = byte == EOF && !is_end;
    *line = is_end ? NULL : reader->line;
    return STATUS_OK;
}

const char *model_lines_place(const model_line_reader *reader)
{
    return reader->place;
}

bool model_lines_is_cut(const model_line_reader *reader)
{
    return reader->is_cut;
}
