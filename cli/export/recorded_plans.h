/// `dynmo export slurm-shrink`: the plans of a recorded row, and the recipe made of them.
#pragma once

#include "base/arena.h"
#include "base/text.h"
#include "cli/command.h"
#include "traces/store/store.h"

/// Appends the recipe of the run and row that the options name.
status cli_write_recipe(const cli_arguments *arguments, trace_store *store, arena *memory,
                        text_buffer *out, error_message *err);
