/// What a store holds of load traces: which there are, what stands beside them, their rows.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/store.h"
#include "traces/store/writer.h"

#include <stdint.h>

/// All traces, whatever their status, oldest first.
///
/// @param traces [*count] carved from memory, as are its strings
status trace_list(trace_store *store, arena *memory, trace_info **traces, int *count,
                  error_message *err);

/// A complete trace by its name, or by its number if no trace has that name.
///
/// @param name NULL: the only complete trace, or the one that was begun last
/// @return STATUS_INVALID naming the nearest name if there is none such; or if it is running or was
///         interrupted
status trace_find(trace_store *store, const char *name, arena *memory, trace_info *info,
                  error_message *err);

/// A trace by its number, whatever its status. STATUS_INVALID if there is none.
status trace_by_id(trace_store *store, int64_t trace_id, arena *memory, trace_info *info,
                   error_message *err);

/// The properties of the layers, in order; all layers of a complete trace. @param layers [*count]
/// carved from memory
status trace_layers(trace_store *store, const trace_info *info, arena *memory, trace_layer **layers,
                    int *count, error_message *err);

/// The ops of one iteration, or of all where it is TRACE_NOT_RECORDED, by iteration, rank,
/// begin, end, then in the order in which they were put.
///
/// @param ops [*count] carved from memory
status trace_ops(trace_store *store, int64_t trace_id, int iteration, arena *memory, trace_op **ops,
                 int *count, error_message *err);

/// The first sampled iteration after iteration; -1 if there is none. Start with -1.
status trace_next_sample(trace_store *store, int64_t trace_id, int iteration, int *sample,
                         error_message *err);

/// The rows of one iteration, by layer, then microbatch.
///
/// @param loads [*count] out: release with free; NULL where the iteration was not sampled
/// @return STATUS_FORMAT for a number that no writer can have put; STATUS_IO
status trace_loads_at(trace_store *store, int64_t trace_id, int iteration, trace_load **loads,
                      int *count, error_message *err);
