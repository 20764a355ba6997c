/// Lists of numbers as options spell them: 8,16,32.
#pragma once

#include "base/status.h"

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
