/// What a command prints: made completely, then written, so that a failure prints nothing.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/command.h"

/// Writes out to standard output.
///
/// @return STATUS_IO
status cli_print(const text_buffer *out, error_message *err);

/// Appends to out what a command prints. Everything is borrowed for the call.
typedef status (*cli_printer)(const cli_arguments *arguments, arena *memory, text_buffer *out,
                              error_message *err);

/// Has print fill a buffer, with an arena of its own, and writes the buffer to standard output.
status cli_run_printer(const cli_arguments *arguments, cli_printer print, error_message *err);
