#include "traces/store/stream.h"

#include "base/arena.h"
#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { BLOCK_BYTES = 1 << 16 };

/// What gzip makes of recordings is 5 to 30 times as long. More than this is made to fill a
/// machine.
enum { INFLATED_RATIO_MAX = 64, INFLATED_FREE_BYTES = 1 << 26 };

typedef enum stream_kind { STREAM_UNDECIDED, STREAM_PLAIN, STREAM_GZIP } stream_kind;

struct trace_stream {
    char *name;
    FILE *file;
    bool is_standard_input; // not ours to close
    stream_kind kind;
    bool is_inflating; // inflater has state to release
    bool in_member;    // inside a gzip member: an end here is a truncation
    bool at_end;       // of the raw bytes
    z_stream inflater;
    int64_t raw_bytes;
    int64_t inflated_bytes;
    uint64_t raw_hash;
    size_t block_begin; // raw bytes not yet used: block[block_begin, block_end)
    size_t block_end;
    unsigned char block[BLOCK_BYTES];
};

static status no_memory(const char *name, error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "%s: out of memory", name);
}

static trace_stream *stream_create(const char *name)
{
    trace_stream *created = memory_array(1, sizeof *created);
    created->name = strdup(name);
    created->raw_hash = FILE_HASH_START;
    return created;
}

status trace_stream_open(const char *path, trace_stream **stream, error_message *err)
{
    const bool is_standard_input = strcmp(path, "-") == 0;
    FILE *file = stdin;
    if (!is_standard_input) TRY(file_open(path, &file, err));
    *stream = stream_create(is_standard_input ? "standard input" : path);
    (*stream)->file = file;
    (*stream)->is_standard_input = is_standard_input;
    return STATUS_OK;
}

bool trace_stream_is_gzip(const char *path)
{
    unsigned char head[2] = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    const bool is_gzip = fread(head, 1, 2, file) == 2 && head[0] == 0x1f && head[1] == 0x8b;
    fclose(file);
    return is_gzip;
}

status trace_stream_open_bytes(const char *name, const void *bytes, size_t length,
                               trace_stream **stream)
{
    *stream = stream_create(name);
    (*stream)->file = fmemopen((void *)bytes, length, "rb");
    return (*stream)->file != NULL ? STATUS_OK : no_memory(name, NULL);
}

bool trace_stream_is_file(const trace_stream *stream)
{
    struct stat found;
    const int file = fileno(stream->file); // -1: bytes in memory
    return file >= 0 && fstat(file, &found) == 0 && S_ISREG(found.st_mode);
}

/// Eight bytes, the same number on every machine.
static uint64_t word_at(const unsigned char *at)
{
    uint64_t word = 0;
    for (int byte = 7; byte >= 0; byte--) {
        word = word << 8 | at[byte];
    }
    return word;
}

/// Continues a hash by a block, a word at a time: files are large, and FNV-1a takes bytes one by
/// one.
static uint64_t hash_block(uint64_t hash, const void *bytes, size_t length)
{
    enum { LANES = 4, LANE_BYTES = 8 };
    const unsigned char *at = bytes;
    const unsigned char *end = at + length;
    uint64_t lanes[LANES];
    for (uint64_t lane = 0; lane < LANES; lane++) {
        lanes[lane] = hash + lane;
    }
    for (; end - at >= LANES * LANE_BYTES; at += LANES * LANE_BYTES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            // A rotation, as a product carries bits upwards only.
            const uint64_t mixed =
                (lanes[lane] ^ word_at(at + lane * LANE_BYTES)) * UINT64_C(0x9e3779b97f4a7c15);
            lanes[lane] = mixed << 29 | mixed >> 35;
        }
    }
    for (size_t lane = 0; lane < LANES; lane++) {
        hash = (hash ^ lanes[lane]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return file_hash(hash, at, (size_t)(end - at));
}

/// Reads the next block. @param bytes [BLOCK_BYTES] @param length out: of it
static status read_block(trace_stream *stream, void *bytes, size_t *length, error_message *err)
{
    const size_t count = fread(bytes, 1, BLOCK_BYTES, stream->file);
    if (ferror(stream->file)) {
        return error_set(err, STATUS_IO, "%s: %s", stream->name, strerror(errno));
    }
    if (count > 0) stream->raw_hash = hash_block(stream->raw_hash, bytes, count);
    stream->raw_bytes += (int64_t)count;
    stream->at_end = count < BLOCK_BYTES;
    *length = count;
    return STATUS_OK;
}

/// Reads the next block into that of the stream; the last is used up.
static status refill(trace_stream *stream, error_message *err)
{
    stream->block_begin = stream->block_end = 0;
    return read_block(stream, stream->block, &stream->block_end, err);
}

static status decide(trace_stream *stream, error_message *err)
{
    enum { GZIP_WINDOW_BITS = 15 + 16 }; // 16: the gzip wrapper and no other
    TRY(refill(stream, err));
    const bool is_gzip =
        stream->block_end >= 2 && stream->block[0] == 0x1f && stream->block[1] == 0x8b;
    stream->kind = is_gzip ? STREAM_GZIP : STREAM_PLAIN;
    if (!is_gzip) return STATUS_OK;
    if (inflateInit2(&stream->inflater, GZIP_WINDOW_BITS) != Z_OK) {
        return no_memory(stream->name, err);
    }
    stream->is_inflating = true;
    stream->in_member = true;
    return STATUS_OK;
}

static status read_plain(trace_stream *stream, void *bytes, size_t capacity, size_t *count,
                         error_message *err)
{
    if (stream->block_begin == stream->block_end && !stream->at_end) {
        if (capacity >= BLOCK_BYTES) return read_block(stream, bytes, count, err);
        TRY(refill(stream, err));
    }
    const size_t left = stream->block_end - stream->block_begin;
    *count = left < capacity ? left : capacity;
    memcpy(bytes, stream->block + stream->block_begin, *count);
    stream->block_begin += *count;
    return STATUS_OK;
}

/// Inflates once. *count may be 0 although the end is not reached.
static status inflate_some(trace_stream *stream, void *bytes, size_t capacity, size_t *count,
                           error_message *err)
{
    z_stream *inflater = &stream->inflater;
    const size_t left = stream->block_end - stream->block_begin;
    inflater->next_in = stream->block + stream->block_begin;
    inflater->avail_in = (uInt)left;
    inflater->next_out = bytes;
    inflater->avail_out = (uInt)capacity;
    const int code = inflate(inflater, Z_NO_FLUSH);
    stream->block_begin += left - inflater->avail_in;
    *count = capacity - inflater->avail_out;
    stream->inflated_bytes += (int64_t)*count;
    if (stream->inflated_bytes > INFLATED_FREE_BYTES &&
        stream->inflated_bytes / INFLATED_RATIO_MAX > stream->raw_bytes) {
        return error_set(err, STATUS_FORMAT,
                         "%s: gzip data inflates to more than %d times its length, which no "
                         "recording does; gunzip it first if it is one",
                         stream->name, INFLATED_RATIO_MAX);
    }
    if (code == Z_MEM_ERROR) return no_memory(stream->name, err);
    if (code == Z_STREAM_END) {
        stream->in_member = false;
        return STATUS_OK;
    }
    if (code != Z_OK && code != Z_BUF_ERROR) {
        return error_set(
            err, STATUS_FORMAT, "%s: corrupt gzip data (%s) after byte %lld", stream->name,
            inflater->msg != NULL ? inflater->msg : "unknown",
            (long long)(stream->raw_bytes - (int64_t)(stream->block_end - stream->block_begin)));
    }
    return STATUS_OK;
}

static status read_gzip(trace_stream *stream, void *bytes, size_t capacity, size_t *count,
                        error_message *err)
{
    if (capacity > BLOCK_BYTES) capacity = BLOCK_BYTES;
    for (*count = 0; *count == 0;) {
        if (stream->block_begin == stream->block_end && !stream->at_end) TRY(refill(stream, err));
        const bool is_empty = stream->block_begin == stream->block_end;
        if (is_empty && !stream->in_member) return STATUS_OK;
        if (!stream->in_member) { // another member after the last
            inflateReset(&stream->inflater);
            stream->in_member = true;
        }
        TRY(inflate_some(stream, bytes, capacity, count, err));
        if (is_empty && *count == 0 && stream->in_member) {
            return error_set(err, STATUS_FORMAT, "%s: gzip data ends early: the file is truncated",
                             stream->name);
        }
    }
    return STATUS_OK;
}

status trace_stream_read(trace_stream *stream, void *bytes, size_t capacity, size_t *count,
                         error_message *err)
{
    assert(capacity > 0);
    if (stream->kind == STREAM_UNDECIDED) TRY(decide(stream, err));
    return stream->kind == STREAM_GZIP ? read_gzip(stream, bytes, capacity, count, err)
                                       : read_plain(stream, bytes, capacity, count, err);
}

trace_input_file trace_stream_input(const trace_stream *stream)
{
    return (trace_input_file){stream->name, stream->raw_bytes, stream->raw_hash};
}

void trace_stream_close(trace_stream *stream)
{
    if (stream == NULL) return;
    if (stream->is_inflating) inflateEnd(&stream->inflater);
    if (stream->file != NULL && !stream->is_standard_input) fclose(stream->file);
    free(stream->name);
    free(stream);
}

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
