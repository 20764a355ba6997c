/// Text files that are part of the binary, so that it works from anywhere. `embed_files` of
/// embed.cmake makes the tables.
#pragma once

#include "base/text.h"

/// Tables end at name NULL.
typedef struct embedded_file {
    const char *name; // without folder and extension
    const char *text; // terminated
} embedded_file;

/// The text of a name, or NULL.
const char *embedded_find(const embedded_file *files, const char *name);

/// As text_suggestion, of the names of files, at most 64 of them.
const char *embedded_suggestion(const embedded_file *files, const char *name,
                                char out[TEXT_SUGGESTION_BYTES]);
