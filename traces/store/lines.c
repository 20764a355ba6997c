#include "traces/store/lines.h"

#include "base/arena.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 1 << 17, PLACE_BYTES = 320 };

struct trace_lines {
    trace_stream *stream;
    bool is_own; // the stream is closed with the lines
    char *bytes; // [capacity] of which bytes[begin, end) are read and not taken
    size_t capacity;
    size_t begin;
    size_t end;  // < capacity
    bool at_end; // the stream has no more
    bool is_cut;
    int64_t number; // of the last line, from 1
    char place[PLACE_BYTES];
};

trace_lines *trace_lines_open(trace_stream *stream)
{
    trace_lines *opened = memory_array(1, sizeof *opened);
    *opened = (trace_lines){.stream = stream, .capacity = FIRST_BYTES};
    opened->bytes = memory_array(opened->capacity, 1);
    return opened;
}

status trace_lines_open_path(const char *path, trace_lines **lines, error_message *err)
{
    trace_stream *stream = NULL;
    TRY(trace_stream_open(path, &stream, err));
    *lines = trace_lines_open(stream);
    (*lines)->is_own = true;
    return STATUS_OK;
}

void trace_lines_close(trace_lines *lines)
{
    if (lines == NULL) return;
    if (lines->is_own) trace_stream_close(lines->stream);
    free(lines->bytes);
    free(lines);
}

const char *trace_lines_place(trace_lines *lines)
{
    snprintf(lines->place, sizeof lines->place, "%.280s:%" PRId64,
             trace_stream_input(lines->stream).path, lines->number);
    return lines->place;
}

bool trace_lines_is_cut(const trace_lines *lines)
{
    return lines->is_cut;
}

/// Reads on. What is not taken moves to the front.
static status read_on(trace_lines *lines, error_message *err)
{
    size_t count = 0;
    memmove(lines->bytes, lines->bytes + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    if (lines->end > TRACE_LINE_BYTES_MAX) {
        return error_set(err, STATUS_FORMAT, "%s: is longer than %d bytes",
                         trace_lines_place(lines), TRACE_LINE_BYTES_MAX);
    }
    if (lines->end + 1 >= lines->capacity) {
        lines->bytes = memory_resize(lines->bytes, lines->capacity *= 2, 1);
    }
    TRY(trace_stream_read(lines->stream, lines->bytes + lines->end,
                          lines->capacity - lines->end - 1, &count, err));
    lines->end += count;
    lines->at_end = count == 0;
    return STATUS_OK;
}

status trace_lines_next(trace_lines *lines, char **line, error_message *err)
{
    char *feed = NULL;
    lines->number++;
    for (size_t seen = 0; feed == NULL;) {
        const size_t held = lines->end - lines->begin;
        feed = memchr(lines->bytes + lines->begin + seen, '\n', held - seen);
        if (feed == NULL && lines->at_end) break;
        if (feed == NULL) TRY(read_on(lines, err));
        seen = held;
    }
    lines->is_cut = feed == NULL;
    *line = NULL;
    if (lines->begin == lines->end) return STATUS_OK;
    char *begin = lines->bytes + lines->begin;
    char *stop = feed != NULL ? feed : lines->bytes + lines->end;
    lines->begin = (size_t)(stop - lines->bytes) + (feed != NULL);
    if (memchr(begin, '\0', (size_t)(stop - begin)) != NULL) {
        return error_set(err, STATUS_FORMAT, "%s: holds a zero byte", trace_lines_place(lines));
    }
    if (stop > begin && stop[-1] == '\r') stop--;
    *stop = '\0';
    *line = begin;
    return STATUS_OK;
}

status trace_lines_peek(trace_lines *lines, const char **bytes, size_t *count, error_message *err)
{
    if (lines->end == 0) TRY(read_on(lines, err));
    *bytes = lines->bytes;
    *count = lines->end;
    return STATUS_OK;
}

int trace_lines_cut(char *line, char **cells, int max)
{
    int count = 0;
    for (char *at = line; at != NULL; count++) {
        if (count < max) cells[count] = at;
        at = strchr(at, ',');
        if (at != NULL) *at++ = '\0';
    }
    return count;
}
