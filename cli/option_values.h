/// What options spell: lists of numbers (8,16,32), ranges of iterations (A:B), names of traces.
#pragma once

#include "base/status.h"
#include "cli/command.h"

#include <stdbool.h>
#include <stdint.h>

/// Parses numbers with commas between them.
///
/// @param option names the option in messages
/// @param values [max_count] out
/// @param count  out: 1 .. max_count
/// @return STATUS_INVALID naming option, text and limits
status cli_list_int64(const char *option, const char *text, int64_t min, int64_t max,
                      int64_t *values, int max_count, int *count, error_message *err);

/// The same for numbers with a fraction.
status cli_list_double(const char *option, const char *text, double min, double max, double *values,
                       int max_count, int *count, error_message *err);

/// A share as people write it: "5%" or "0.05"; untouched if the option is not given.
///
/// @param low, high it is in [low, high), and above 0
/// @return STATUS_INVALID naming the option, what it was and the limits
status cli_share(const cli_arguments *arguments, const char *option, double low, double high,
                 double *share, error_message *err);

/// --first-stage-backward split|whole; untouched if it is not given.
status cli_first_stage(const cli_arguments *arguments, bool *is_whole, error_message *err);

/// Whether a file begins as stores do, plain or compressed. "-" does not.
///
/// @return STATUS_IO: it cannot be opened
status cli_is_store(const char *path, bool *is_store, error_message *err);

/// The option --iterations A:B.

/// Parses "A:B", both included, or one iteration.
///
/// @return STATUS_INVALID naming the text
status cli_iteration_range(const char *text, int *first, int *last, error_message *err);

/// The name that an imported trace has where none is given.

enum { CLI_TRACE_NAME_BYTES = 256 };

/// Writes the file's name without its folder and without those endings that it has, each removed
/// once, in this order. "-" is "stdin".
///
/// @param endings [ending_count] for example ".gz", ".csv"
void cli_trace_name(const char *path, const char *const *endings, int ending_count,
                    char name[CLI_TRACE_NAME_BYTES]);
