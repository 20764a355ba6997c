#include "cli/commands.h"

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
_Static_assert(sizeof commands / sizeof commands[0] <= CLI_COMMANDS_MAX, "raise CLI_COMMANDS_MAX");

const cli_command *const *cli_commands(int *count)
{
    *count = sizeof commands / sizeof commands[0];
    return commands;
}
