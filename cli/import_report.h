/// What the commands that import profiles share: where the trace goes, and what they say of it.
#pragma once

#include "base/status.h"
#include "cli/command.h"
#include "traces/import_kineto.h"
#include "traces/writer.h"

/// Reads --backward-split into info; without the option info stays as it is.
status cli_import_split(const cli_arguments *arguments, trace_info *info, error_message *err);

/// Adds the import to the store that --output names, and prints what it is, with --json as one line
/// of JSON. A failure leaves nothing in the store.
///
/// @param info name, tool_version and backward_split
status cli_import_store(const cli_arguments *arguments, const trace_import *import,
                        const trace_info *info, error_message *err);
