/// `dynmo show --imbalance`.
#pragma once

#include "base/status.h"
#include "cli/command.h"

/// Prints the imbalance of the trace, the study or the recorded run that the arguments name.
status cli_show_imbalance(const cli_arguments *arguments, error_message *err);
