/// The parts of carrying out a command, one per kind (run.h).
#pragma once

#include "exec/run/run.h"

/// Each reads what follows the head in run->command and fills run->answer.
status exec_run_move(exec_run *run, const exec_command *command, error_message *err);
status exec_run_iterate(exec_run *run, const exec_command *command, error_message *err);
status exec_run_diffuse(exec_run *run, const exec_command *command, error_message *err);
status exec_run_pack(exec_run *run, const exec_command *command, error_message *err);
