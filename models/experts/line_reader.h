/// Lines of a text file of any size, one at a time.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { MODEL_LINE_BYTES_MAX = 1 << 26 };

typedef struct model_line_reader model_line_reader;

/// @param path   borrowed until close
/// @param reader release with model_lines_close
/// @return STATUS_IO naming path and reason
status model_lines_open(const char *path, model_line_reader **reader, error_message *err);

/// The same over bytes[length], borrowed until close as is name, which stands for the path in
/// messages.
model_line_reader *model_lines_open_bytes(const char *name, const char *bytes, size_t length);

void model_lines_close(model_line_reader *reader); ///< NULL is allowed

/// Reads the next line, without its line break and a carriage return before it.
///
/// @param line out: terminated, the caller may write into it; borrowed until the next call. NULL at
///             the end of the file
/// @return STATUS_IO; STATUS_FORMAT: a byte 0, or a line longer than MODEL_LINE_BYTES_MAX
status model_lines_next(model_line_reader *reader, char **line, error_message *err);

/// Where the last line stands: "path:number". Borrowed until the next call of model_lines_next.
const char *model_lines_place(const model_line_reader *reader);

/// The last line ended with the file instead of a line break: it may have been cut.
bool model_lines_is_cut(const model_line_reader *reader);
