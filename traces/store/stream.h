/// Bytes of an input, plain or gzip by content, a block at a time.
#pragma once

#include "base/status.h"
#include "traces/store/store.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct trace_stream trace_stream;

/// Opens a file; "-" is standard input. Nothing is read yet. The name of the file does not matter:
/// what begins with the two bytes of gzip is inflated, however many members it has.
///
/// @param stream release with trace_stream_close
/// @return STATUS_IO naming path and reason
status trace_stream_open(const char *path, trace_stream **stream, error_message *err);

/// Whether a file begins as gzip does; false where it cannot be read.
bool trace_stream_is_gzip(const char *path);

/// The same over bytes[length], borrowed until close. name stands for the path in messages.
status trace_stream_open_bytes(const char *name, const void *bytes, size_t length,
                               trace_stream **stream);

/// Whether it is a file of a disk, which never waits for a writer.
bool trace_stream_is_file(const trace_stream *stream);

/// Reads up to capacity bytes.
///
/// @param count out: at least 1, or 0 at the end
/// @return STATUS_IO; STATUS_FORMAT: the gzip data is corrupt, ends early, or inflates
///         beyond 64 MiB to more than 64 times its length
status trace_stream_read(trace_stream *stream, void *bytes, size_t capacity, size_t *count,
                         error_message *err);

/// What was read so far, as it is on disk: the whole file once trace_stream_read said 0. path is
/// borrowed until close.
trace_input_file trace_stream_input(const trace_stream *stream);

void trace_stream_close(trace_stream *stream); ///< NULL is allowed

// Lines of a text of any length, plain or gzip, one at a time.

enum { TRACE_LINE_BYTES_MAX = 1 << 26 };

typedef struct trace_lines trace_lines;

/// @param stream borrowed until close; nothing of it is read yet
/// @return release with trace_lines_close
trace_lines *trace_lines_open(trace_stream *stream);

/// The same of a file. @return what trace_stream_open says
status trace_lines_open_path(const char *path, trace_lines **lines, error_message *err);

/// Reads the next line, without its line feed and a carriage return before it.
///
/// @param line out: terminated, the caller may write into it; borrowed until the next call. NULL at
///             the end
/// @return what trace_stream_read says; STATUS_FORMAT: a zero byte, or a line longer than
///         TRACE_LINE_BYTES_MAX
status trace_lines_next(trace_lines *lines, char **line, error_message *err);

/// Where the last line stands: "name:number". Borrowed until the next call of this.
const char *trace_lines_place(trace_lines *lines);

/// The last line ended with the text instead of a line feed: it may have been cut.
bool trace_lines_is_cut(const trace_lines *lines);

/// The first bytes, which are read and not taken; for one who has to know what they are lines of.
///
/// @param count out: 0 of nothing
status trace_lines_peek(trace_lines *lines, const char **bytes, size_t *count, error_message *err);

/// Cuts a line at its commas, in place.
///
/// @param cells [max] out: the first of them
/// @return how many there are
int trace_lines_cut(char *line, char **cells, int max);

void trace_lines_close(trace_lines *lines); ///< NULL is allowed
