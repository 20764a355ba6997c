/// The option --iterations A:B.
#pragma once

#include "base/status.h"

/// Parses "A:B", both included, or one iteration.
///
/// @return STATUS_INVALID naming the text
status cli_iteration_range(const char *text, int *first, int *last, error_message *err);
