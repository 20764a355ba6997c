/// What the operand of `dynmo diagnose` is: a store, a CSV, or counts of tokens per expert.
#pragma once

#include "base/status.h"
#include "cli/command.h"

#include <stdbool.h>

enum { CLI_INPUT_PATH_BYTES = 512 };

/// Zero-initialise; release with cli_diagnose_input_close.
typedef struct cli_diagnose_input {
    bool is_counts;
    bool is_own;                           // the store was made of the operand
    char store_path[CLI_INPUT_PATH_BYTES]; // of a trace
} cli_diagnose_input;

/// Looks at the first bytes of path, which may be compressed by gzip. A trace as CSV
/// becomes a store of our own for as long as the input is open.
///
/// @return STATUS_FORMAT: none of what a diagnosis reads; STATUS_IO
status cli_diagnose_input_open(const char *path, cli_diagnose_input *input, error_message *err);

/// Removes what open has made.
void cli_diagnose_input_close(cli_diagnose_input *input);
