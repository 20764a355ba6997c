/// What `report` and `export` share: open a store, read a recorded run, write something of it.
#pragma once

#include "analysis/study/recorded.h"
#include "base/arena.h"
#include "base/text.h"
#include "cli/command.h"
#include "traces/store/store.h"

/// Appends to out what a command makes of a run. Everything is borrowed for the call.
typedef status (*cli_recorded_writer)(const cli_arguments *arguments, trace_store *store,
                                      const ana_recorded *recorded, arena *memory, text_buffer *out,
                                      error_message *err);

/// Opens the store that operand 0 names, reads the run that --run names, has write fill a buffer,
/// and writes it to --output or standard output.
status cli_write_recorded(const cli_arguments *arguments, cli_recorded_writer write,
                          error_message *err);
