#include "cli/commands.h"

#include "cli/version.h"

#include <string.h>

enum { COLUMNS = 79 };

/// In the order in which they are shown.
static const cli_command *const commands[] = {
    // the first question, and the main job
    &cli_command_diagnose,
    &cli_command_stragglers,
    &cli_command_simulate,
    &cli_command_study,
    &cli_command_merge,
    &cli_command_run,
    &cli_command_check,
    &cli_command_plan,
    &cli_command_schedule,
    // what goes in
    &cli_command_model,
    &cli_command_probe,
    &cli_command_calibrate,
    &cli_command_validate,
    &cli_command_import_csv,
    &cli_command_import_kineto,
    &cli_command_import_nsys,
    &cli_command_import_ops,
    // what comes out
    &cli_command_converge,
    &cli_command_reproduce,
    &cli_command_show,
    &cli_command_report,
    &cli_command_export,
};
enum { COMMAND_COUNT = (int)(sizeof commands / sizeof commands[0]) };
_Static_assert(sizeof commands / sizeof commands[0] <= CLI_COMMANDS_MAX, "raise CLI_COMMANDS_MAX");

const cli_command *const *cli_commands(int *count)
{
    *count = COMMAND_COUNT;
    return commands;
}

void cli_help_overview(text_buffer *out)
{
    text_append(out, "dynmo " DYNMO_VERSION "\n"
                     "usage: dynmo COMMAND [OPTION]... [FILE]...\n\n"
                     "Says what rebalancing a pipeline-parallel training run is worth.\n\n");
    int widest = 0;
    for (int index = 0; index < COMMAND_COUNT; index++) {
        const int width = (int)strlen(commands[index]->name);
        widest = width > widest ? width : widest;
    }
    for (int index = 0; index < COMMAND_COUNT; index++) {
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
