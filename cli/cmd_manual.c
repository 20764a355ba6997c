/// `dynmo manual`: the manual page, from the table of commands.
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/output.h"

static status run(const cli_arguments *arguments, error_message *err)
{
    (void)arguments;
    text_buffer out = {0};
    cli_help_manual(&out);
    const status result = cli_print(&out, err);
    text_free(&out);
    return result;
}

const cli_command cli_command_manual = {
    .name = "manual",
    .synopsis = "",
    .summary = "prints the manual page dynmo(1)",
    .description = "Prints the manual page of all commands in mdoc, for man -l or an installation.",
    .run = run,
};
