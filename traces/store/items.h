/// Results of work in many items, such as the points of a what-if study: kept as they come, so that
/// an interrupted run goes on where it was, and read back in order.
///
/// A run of items has an identity, which its command makes of all that its results depend on. The
/// same command finds the run again by that.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/runs.h"
#include "traces/store/store.h"

#include <stddef.h>
#include <stdint.h>

/// The newest run of this identity.
///
/// @param run_id out: 0 if there is none
/// @param info   out, if there is one; strings are carved from memory. `running` means that its
///               writer lives, or cannot be seen from here
status trace_items_find(trace_store *store, const char *identity, arena *memory, int64_t *run_id,
                        trace_run_info *info, error_message *err);

/// A run by its identity.
typedef struct trace_items_name {
    int64_t run_id;
    const char *identity;
} trace_items_name;

/// The newest run of each identity that fits a pattern (SQLite's GLOB), oldest first.
///
/// @param names [*count] out, carved from memory
status trace_items_list(trace_store *store, const char *pattern, arena *memory,
                        trace_items_name **names, int *count, error_message *err);

/// Begins a run that can be found by its identity, as trace_run_begin does. Its items are put by
/// trace_run_put_item.
status trace_items_begin(trace_store *store, const trace_run_info *info, const char *identity,
                         const trace_input_file *files, int file_count, trace_run **run,
                         error_message *err);

/// Gives what is kept of a pass to take, in ascending order of the items.
///
/// @param take bytes are borrowed for the call and end with a zero after length; what it returns
///             ends the reading and is returned
status trace_items_read(trace_store *store, int64_t run_id, int pass, void *context,
                        status (*take)(void *context, int64_t item, const char *bytes,
                                       size_t length, error_message *err),
                        error_message *err);

/// Keeps what another store has of a run, all passes of it.
///
/// @param count out: how many items; may be NULL
status trace_items_copy(trace_store *from, int64_t run_id, trace_run *to, int64_t *count,
                        error_message *err);
