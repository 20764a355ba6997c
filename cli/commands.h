/// The commands; main.c has the table. One cmd_<name>.c each.
#pragma once

#include "cli/command.h"

extern const cli_command cli_command_export_perfetto;
extern const cli_command cli_command_import_csv;
extern const cli_command cli_command_manual;
extern const cli_command cli_command_model;
extern const cli_command cli_command_plan;
extern const cli_command cli_command_report;
extern const cli_command cli_command_schedule;
extern const cli_command cli_command_show;
extern const cli_command cli_command_simulate;
