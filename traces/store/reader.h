/// What layers of a recorded trace cost: at any iteration, as replays ask for it, and on average,
/// as it is shown and compared.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"
#include "traces/store/catalog.h"

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
status trace_reader_open(trace_store *store, int64_t trace_id, trace_columns columns, arena *memory,
                         trace_reader **reader, error_message *err);

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

/// Busy times of one microbatch, means over all recorded microbatches of the sampled iterations in
/// a range, rounded to the nearest ns, halves up. Arrays are from the arena.
typedef struct trace_loads {
    int iteration_count;
    int *iterations; // [iteration_count] the sampled ones, ascending
    int layer_count;
    int64_t *forward_ns;         // [layer_count]
    int64_t *backward_input_ns;  // [layer_count] B and recompute; with is_full: all of the backward
    int64_t *backward_weight_ns; // [layer_count]
    int64_t *communication_ns;   // [layer_count] 0 where it was not recorded
    bool *is_full;               // [layer_count] a full backward, and no split is assumed
} trace_loads;

/// @param info        of a complete trace
/// @param first, last iterations, both included
/// @return STATUS_INVALID if no iteration in the range was sampled; STATUS_FORMAT if the store
///         holds impossible rows, or a sum does not fit 64 bits
///
/// Time O(rows in the range), memory O(layers + microbatches + iterations).
status trace_loads_mean(trace_store *store, const trace_info *info, int first, int last,
                        arena *memory, trace_loads *loads, error_message *err);
