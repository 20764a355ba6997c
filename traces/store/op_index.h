/// Finding the op of a recorded timeline that another one waits for.
#pragma once

#include "traces/store/writer.h"

#include <stdint.h>

/// Ops that can be found by what they compute.
typedef struct trace_op_index {
    const trace_op *ops;
    int64_t count;
    int64_t *order; // [count] indices of ops by iteration, replica, kind, layer, microbatch, begin
} trace_op_index;

/// @param ops borrowed as long as the index. Time O(count log count).
void trace_op_index_create(const trace_op *ops, int64_t count, trace_op_index *index);

void trace_op_index_free(trace_op_index *index);

/// The first op like that, or NULL.
const trace_op *trace_op_find(const trace_op_index *index, int iteration, int replica,
                              trace_op_kind kind, int layer, int microbatch);

/// The op whose result op needs from another layer: for F that of the layer before; for B, BW, and
/// a W without either (the first layer has no input gradient) that of the layer after. NULL if op
/// needs none or it was not recorded.
const trace_op *trace_op_producer(const trace_op_index *index, const trace_op *op);
