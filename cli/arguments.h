/// What the command line holds after parsing. Only the parser and main see the inside.
#pragma once

#include "cli/command.h"

enum { CLI_GIVEN_MAX = 256 };

typedef struct cli_given {
    const cli_option *option;
    const char *value;
} cli_given;

struct cli_arguments {
    const cli_command *command;
    const char *command_line;
    bool wants_help;
    int option_count;
    int operand_count;
    cli_given options[CLI_GIVEN_MAX];
    const char *operands[CLI_OPERANDS_MAX];
};

/// Parses the words after the command's name. words are borrowed as long as arguments.
///
/// @param arguments zero, but for command_line
/// @return STATUS_INVALID naming the word that is wrong. With --help: wants_help, STATUS_OK.
status cli_parse(const cli_command *command, int word_count, char *const *words,
                 cli_arguments *arguments, error_message *err);
