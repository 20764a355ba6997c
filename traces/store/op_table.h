/// All ops of a recorded run, of every replica and every iteration, as analyses take them.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/catalog.h"
#include "traces/store/writer.h"

#include <stdint.h>

enum { TRACE_OP_NAMES_MAX = 256, TRACE_CHUNKS_MAX = 1 << 10 };

typedef struct trace_op_table {
    int replica_count;
    int stage_count; // of a replica; a worker, replica x stage_count + stage, is the op's rank
    int chunk_count;
    int name_count;
    const char **names;   // [name_count] name k of an op is names[k - 1]
    trace_op_kind *kinds; // [name_count] that ops of the name have
    int64_t op_count;
    trace_op *ops; // [op_count] by iteration, rank, begin, end
} trace_op_table;

/// Sorts ops by iteration, rank, begin, end, and then as they stood. Time O(n log n).
void trace_op_table_sort(trace_op *ops, int64_t op_count);

/// Puts the ops with their names, and as loads what F and backward of each stage took, a layer
/// being a stage here (with chunks: chunk x stage_count + stage), means over the replicas.
///
/// @return what trace_writer_put_op and trace_writer_put_load say
status trace_op_table_put(trace_writer *writer, const trace_op_table *table, error_message *err);

/// Reads the ops of a complete trace. Everything is carved from memory: 72 bytes per op.
///
/// @return STATUS_INVALID: the trace is neither of imported ops nor of an execution that recorded
///         its F and backwards; STATUS_FORMAT: an op that no writer can have put
status trace_op_table_get(trace_store *store, const trace_info *info, arena *memory,
                          trace_op_table *table, error_message *err);

/// Ops that can be found by what they compute.
typedef struct trace_op_index {
    const trace_op *ops;
    int64_t count;
    const trace_op **order; // [count] by iteration, replica, kind, layer, microbatch, begin
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
