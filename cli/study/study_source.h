/// Where `dynmo study` has its study from: a file, or what the options say of a model on a cluster.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "cli/command.h"

/// Reads or makes the study. One that is made is written to -o, which must not be there yet.
///
/// @param path out: of the file; borrowed from arguments, or carved from memory
/// @param text out: what is in it, carved from memory
/// @return STATUS_INVALID for options that do not go together; STATUS_IO; what ana_study_draft
///         refuses
status cli_study_source(const cli_arguments *arguments, arena *memory, const char **path,
                        const char **text, error_message *err);
