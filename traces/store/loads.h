/// What the layers of a trace cost on average: what is shown and compared, not replayed.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/catalog.h"

#include <stdbool.h>
#include <stdint.h>

/// How a row's backward divides into B and W. Recompute counts as B, which waits for it. A full
/// backward counts as B where no backward_split is assumed; else by that share, and as W for the
/// embedding, which has no gradient to pass on.
void trace_backward_of(const trace_info *info, const trace_load *load, int64_t *input_ns,
                       int64_t *weight_ns);

/// The column of a row among those of its trace: its microbatch, 0 of means.
///
/// @return STATUS_FORMAT for a layer or microbatch that the trace has not
status trace_load_column(const trace_store *store, const trace_info *info, const trace_load *load,
                         int *column, error_message *err);

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
