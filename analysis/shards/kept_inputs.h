/// The files that a JSON document names, whatever they are for.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/store.h"

#include <stdint.h>

/// Finds the document's own file, if it has one, and every text in it, at any depth, that is the
/// path of a regular file, and hashes it once. Names of presets are texts without a file.
///
/// @param path  of the document, from whose folder it names others; NULL: from the working one
/// @param store a file that changes while this goes on: its traces count by name and when they were
///              imported; NULL: none
/// @param files [*count] out, carved from memory, in the order in which they are named
/// @return STATUS_FORMAT if it is no JSON; STATUS_IO; STATUS_NO_MEMORY
status ana_kept_inputs_find(const char *path, const char *json, trace_store *store, arena *memory,
                            trace_input_file **files, int *count, error_message *err);
