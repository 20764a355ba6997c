#include "cli/help.h"

#include "cli/commands.h"
#include "cli/version.h"

#include <string.h>

enum { COLUMNS = 79 };

void cli_help_overview(text_buffer *out)
{
    text_append(out, "dynmo " DYNMO_VERSION "\n"
                     "usage: dynmo COMMAND [OPTION]... [FILE]...\n\n"
                     "Says what rebalancing a pipeline-parallel training run is worth.\n\n");
    int count = 0;
    const cli_command *const *commands = cli_commands(&count);
    int widest = 0;
    for (int index = 0; index < count; index++) {
        const int width = (int)strlen(commands[index]->name);
        widest = width > widest ? width : widest;
    }
    for (int index = 0; index < count; index++) {
        text_format(out, "  %-*s %s\n", widest, commands[index]->name, commands[index]->summary);
    }
    text_append(out, "\n`dynmo COMMAND --help` tells the options of a command.\n"
                     "Exit status: 0 ok; 1 failed (I/O, memory); 2 usage, malformed or\n"
                     "unsupported input; 3 infeasible; 4 a check is exceeded, 5 undecided;\n"
                     "130 interrupted.\n");
}

void cli_help_command(const cli_command *command, text_buffer *out)
{
    const char *blank = command->synopsis[0] != '\0' ? " " : "";
    text_format(out, "usage: dynmo %s%s%s\n\n", command->name, blank, command->synopsis);
    text_append_wrapped(out, command->description, 0, COLUMNS);
    text_append(out, "\n");
    if (command->details != NULL) {
        text_append_wrapped(out, command->details, 0, COLUMNS);
        text_append(out, "\n");
    }
    for (const cli_option *option = command->options; option->name != NULL; option++) {
        char letter[5] = "";
        if (option->letter != 0) {
            const char shown[] = {'-', option->letter, ',', ' ', '\0'};
            memcpy(letter, shown, sizeof shown);
        }
        text_format(out, "  %s%s%s%s\n", letter, option->name, option->argument != NULL ? " " : "",
                    option->argument != NULL ? option->argument : "");
        text_append_wrapped(out, option->help, 6, COLUMNS);
    }
    text_append(out, "  -h, --help\n      Prints this text.\n");
}

static void append_mdoc(text_buffer *out, const char *words)
{
    for (const char *at = words; *at != '\0'; at++) {
        if (at[0] == '\n' && at[1] == '\n') {
            text_append(out, "\n.Pp\n");
            at++;
        } else if (at[0] == '.' && at[1] == ' ') {
            text_append(out, ".\n"); // mdoc wants every sentence on a line of its own
            at++;
        } else if (*at == '\\') {
            text_append(out, "\\e");
        } else if (*at == '-') {
            text_append(out, "\\-");
        } else if ((*at == '.' || *at == '\'') &&
                   (out->length == 0 || out->bytes[out->length - 1] == '\n')) {
            text_format(out, "\\&%c", *at);
        } else {
            text_append_bytes(out, at, 1);
        }
    }
}

static void append_manual_command(text_buffer *out, const cli_command *command)
{
    text_append(out, ".Ss dynmo ");
    append_mdoc(out, command->name);
    text_append(out, "\n.Nm dynmo ");
    append_mdoc(out, command->name);
    text_append(out, " ");
    append_mdoc(out, command->synopsis);
    text_append(out, "\n.Pp\n");
    append_mdoc(out, command->description);
    if (command->details != NULL) {
        text_append(out, "\n.Pp\n");
        append_mdoc(out, command->details);
    }
    text_append(out, "\n.Bl -tag -width Ds\n");
    for (const cli_option *option = command->options; option->name != NULL; option++) {
        text_append(out, ".It ");
        if (option->letter != 0) text_format(out, "\\-%c, ", option->letter);
        append_mdoc(out, option->name);
        if (option->argument != NULL) {
            text_append(out, " ");
            append_mdoc(out, option->argument);
        }
        text_append(out, "\n");
        append_mdoc(out, option->help);
        text_append(out, "\n");
    }
    text_append(out, ".It \\-h, \\-\\-help\nPrints the options.\n.El\n");
}

void cli_help_manual(text_buffer *out)
{
    text_append(out, ".Dd November 21, 2026\n.Dt DYNMO 1\n.Os\n.Sh NAME\n.Nm dynmo\n"
                     ".Nd what rebalancing a pipeline-parallel training run is worth\n"
                     ".Sh SYNOPSIS\n.Nm\n.Ar command\n.Op Ar option ...\n.Op Ar file ...\n"
                     ".Sh DESCRIPTION\nData goes to standard output, everything else to standard\n"
                     "error.\n");
    int count = 0;
    const cli_command *const *commands = cli_commands(&count);
    for (int index = 0; index < count; index++) {
        append_manual_command(out, commands[index]);
    }
    text_append(out, ".Sh EXIT STATUS\n"
                     "0 ok; 1 failed (I/O, memory, a backend); 2 usage, malformed or unsupported\n"
                     "input; 3 infeasible (no plan fits); 130 interrupted.\n");
}
