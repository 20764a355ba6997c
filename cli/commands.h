/// The commands. One cmd_<name>.c each; commands.c has the table.
#pragma once

#include "base/text.h"
#include "cli/command.h"

enum { CLI_COMMANDS_MAX = 32 };

/// The commands, in the order in which they are shown.
///
/// @return [*count], static storage
const cli_command *const *cli_commands(int *count);

/// Appends `dynmo --help`, and `dynmo COMMAND --help`.
void cli_help_overview(text_buffer *out);
void cli_help_command(const cli_command *command, text_buffer *out);

extern const cli_command cli_command_check;
extern const cli_command cli_command_calibrate;
extern const cli_command cli_command_validate;
extern const cli_command cli_command_converge;
extern const cli_command cli_command_diagnose;
extern const cli_command cli_command_export;
extern const cli_command cli_command_import_csv;
extern const cli_command cli_command_import_kineto;
extern const cli_command cli_command_import_nsys;
extern const cli_command cli_command_import_ops;
extern const cli_command cli_command_merge;
extern const cli_command cli_command_model;
extern const cli_command cli_command_plan;
extern const cli_command cli_command_probe;
extern const cli_command cli_command_report;
extern const cli_command cli_command_reproduce;
extern const cli_command cli_command_run;
extern const cli_command cli_command_schedule;
extern const cli_command cli_command_show;
extern const cli_command cli_command_simulate;
extern const cli_command cli_command_stragglers;
extern const cli_command cli_command_study;
