/// What the commands that import profiles do alike: all but reading the profiles.
#pragma once

#include "base/status.h"
#include "cli/command.h"
#include "traces/import/import_kineto.h"
#include "traces/store/writer.h"

/// Reads the profiles that the operands name.
///
/// @param map of --phase-map, or NULL
/// @param import out: the caller's, who frees it on success and on failure
typedef status (*cli_import_reader)(const cli_arguments *arguments, const trace_phase_map *map,
                                    trace_import *import, error_message *err);

/// Runs a command that imports profiles: reads its options and, by read, the operands, adds the
/// import to the store that --output names, and prints what it is, with --json as one line of JSON.
/// A failure leaves nothing in the store. Without --name the trace is called as the first file.
///
/// @param endings [ending_count] of file names that the name of a trace goes without
/// @return what read and the store say
status cli_run_importer(const cli_arguments *arguments, cli_import_reader read,
                        const char *const *endings, int ending_count, error_message *err);
