/// Layer costs of a recorded trace at any iteration.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"
#include "traces/store/store.h"

#include <stdbool.h>
#include <stdint.h>

/// What a reader makes of microbatches.
typedef enum trace_columns {
    TRACE_COLUMNS_RECORDED, ///< a column per microbatch where the trace has them, else one
    TRACE_COLUMNS_MEAN,     ///< one column: the mean over microbatches, rounded to the nearest ns
} trace_columns;

/// Layer costs of a trace at any iteration.
typedef struct trace_reader trace_reader;

/// Opens a trace by its number, whatever its status. Memory O(layers x columns).
///
/// @param reader carved from memory; not used after the store is closed
/// @return STATUS_FORMAT if the trace holds no sample
status trace_reader_open(trace_store *store, int64_t trace_id, trace_columns columns,
                         arena *memory, trace_reader **reader, error_message *err);

/// Costs at an iteration: those of the last sample at or before it; before the first sample, the
/// first. Cheap while the sample stays the same; a new one reads its rows.
///
/// - A phase costs what it is charged, where the trace says that, else its busy time.
/// - A layer or phase without a row in a sample cost nothing in it (a frozen layer has no W). A
///   microbatch without any row was not recorded and gets the mean of those that were.
/// - Recompute is added to B, or to the full backward: the rank before waits for it.
/// - has_split is false if any row of the trace holds a full backward and no backward_split is
///   assumed; then B and W, where they are recorded, are added up.
/// - activation_bytes is the mean over the sample's microbatches, rounded up, NULL if the sample
///   has a forward without it. parameters, state_bytes and message_bytes are NULL unless every
///   layer has them.
///
/// @param costs   borrowed until the next call
/// @param changed false if the sample is that of the call before
/// @return STATUS_FORMAT if the store holds impossible rows; STATUS_IO
status trace_reader_costs_at(trace_reader *reader, int iteration, bal_layer_costs *costs,
                             bool *changed, error_message *err);

/// The reader as the core's port. Borrowed as long as the reader.
bal_cost_source trace_reader_source(trace_reader *reader);
