#include "models/experts/line_reader.h"
#include "base/arena.h"
#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_BYTES = 320 };

struct model_line_reader {
    FILE *file;
    const char *name;
    char *line;
    size_t capacity; // of line, as getline keeps it
    int64_t number;
    bool is_cut;
    char place[PLACE_BYTES];
};

status model_lines_open(const char *path, model_line_reader **reader, error_message *err)
{
    FILE *file = NULL;
    TRY(file_open(path, &file, err));
    *reader = memory_array(1, sizeof **reader);
    **reader = (model_line_reader){.file = file, .name = path};
    return STATUS_OK;
}

model_line_reader *model_lines_open_bytes(const char *name, const char *bytes, size_t length)
{
    model_line_reader *opened = memory_array(1, sizeof *opened);
    FILE *file = fmemopen((void *)(uintptr_t)bytes, length, "rb");
    *opened = (model_line_reader){.file = file, .name = name};
    return opened;
}

void model_lines_close(model_line_reader *reader)
{
    if (reader == NULL) return;
    if (reader->file != NULL) fclose(reader->file);
    free(reader->line);
    free(reader);
}

status model_lines_next(model_line_reader *reader, char **line, error_message *err)
{
    reader->number++;
    snprintf(reader->place, sizeof reader->place, "%.280s:%" PRId64, reader->name, reader->number);
    const ssize_t read =
        reader->file != NULL ? getline(&reader->line, &reader->capacity, reader->file) : -1;
    *line = NULL;
    if (read < 0 && reader->file != NULL && !feof(reader->file)) {
        return error_set(err, STATUS_IO, "%s: %s", reader->name, strerror(errno));
    }
    reader->is_cut = false;
    if (read < 0) return STATUS_OK;
    size_t length = (size_t)read;
    if (length > MODEL_LINE_BYTES_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: a line is longer than %d bytes", reader->place,
                         MODEL_LINE_BYTES_MAX);
    }
    if (strlen(reader->line) < length) {
        return error_set(err, STATUS_FORMAT, "%s: a byte 0 in a text file", reader->place);
    }
    reader->is_cut = reader->line[length - 1] != '\n';
    if (!reader->is_cut) length--;
    if (length > 0 && reader->line[length - 1] == '\r') length--;
    reader->line[length] = '\0';
    *line = reader->line;
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
