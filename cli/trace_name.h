/// The name that an imported trace has where none is given.
#pragma once

enum { CLI_TRACE_NAME_BYTES = 256 };

/// Writes the file's name without its folder and without those endings that it has, each removed
/// once, in this order. "-" is "stdin".
///
/// @param endings [ending_count] for example ".gz", ".csv"
void cli_trace_name(const char *path, const char *const *endings, int ending_count,
                    char name[CLI_TRACE_NAME_BYTES]);
