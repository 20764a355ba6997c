/// --help, from the table of commands.
#pragma once

#include "base/text.h"
#include "cli/command.h"

/// Appends `dynmo --help`.
void cli_help_overview(text_buffer *out);

/// Appends `dynmo COMMAND --help`.
void cli_help_command(const cli_command *command, text_buffer *out);
