/// All ops of a recorded run, of every replica and every iteration, as analyses take them.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/catalog.h"
#include "traces/store/writer.h"

#include <stdint.h>

enum { TRACE_OP_NAMES_MAX = 256, TRACE_CHUNKS_MAX = 1 << 10 };

/// An op of a table: what its name says (its kind) stands there once.
typedef struct trace_table_op {
    int64_t begin_ns;
    int64_t end_ns;
    int32_t iteration;
    int32_t microbatch; // or TRACE_NOT_RECORDED
    int32_t rank;
    int32_t layer; // or TRACE_NOT_RECORDED
    uint16_t replica;
    uint16_t stage;
    uint16_t chunk;
    uint16_t name; // from 1
} trace_table_op;
_Static_assert(sizeof(trace_table_op) == 40, "stated below and in ops.h");

typedef struct trace_op_table {
    int replica_count;
    int stage_count; // of a replica; a worker, replica x stage_count + stage, is the op's rank
    int chunk_count;
    int name_count;
    const char **names;   // [name_count] name k of an op is names[k - 1]
    trace_op_kind *kinds; // [name_count] that ops of the name have
    int64_t op_count;
    trace_table_op *ops; // [op_count] by iteration, rank, begin, end
} trace_op_table;

/// Adds an op, for which there is room; widens the counts of replicas, stages and chunks.
void trace_op_table_add(trace_op_table *table, const trace_op *op);

/// An op as other traces hold it.
trace_op trace_op_table_at(const trace_op_table *table, int64_t op);

/// Sorts ops by iteration, rank, begin, end, and then as they stood. Time O(n log n), less where
/// runs of them are in order; memory: half of the ops that are not.
void trace_ops_sort(trace_op *ops, int64_t op_count);

/// The same of a table's ops, by replica and stage in place of the rank.
void trace_op_table_sort(trace_table_op *ops, int64_t op_count);

/// Gives ops their ranks and layers, by the counts.
void trace_op_table_place(trace_op_table *table);

/// Puts the ops with their names, and as loads what F and backward of each stage took, a layer
/// being a stage here (with chunks: chunk x stage_count + stage), means over the replicas.
///
/// @return what trace_writer_put_op and trace_writer_put_load say
status trace_op_table_put(trace_writer *writer, const trace_op_table *table, error_message *err);

/// Reads the ops of a complete trace. Everything is carved from memory: 40 bytes per op, and 64
/// beside until all are read.
///
/// @return STATUS_INVALID: the trace is neither of imported ops nor of an execution that recorded
///         its F and backwards; STATUS_FORMAT: an op that no writer can have put
status trace_op_table_get(trace_store *store, const trace_info *info, arena *memory,
                          trace_op_table *table, error_message *err);

/// The same of a trace in a store that is opened for it. @param name as of trace_find
status trace_op_table_read(const char *path, const char *name, arena *memory, trace_op_table *table,
                           error_message *err);

/// Ops that can be found by what they compute.
typedef struct trace_op_index {
    const trace_op *ops;
    int64_t count;
    const trace_op **order; // [count] by iteration, replica, kind, layer, microbatch, begin
} trace_op_index;

/// @param ops    borrowed as long as the index. Time O(count log count).
/// @param memory of the index
trace_op_index trace_op_index_of(const trace_op *ops, int64_t count, arena *memory);

/// The first op like that, or NULL.
const trace_op *trace_op_find(const trace_op_index *index, int iteration, int replica,
                              trace_op_kind kind, int layer, int microbatch);

/// The op whose result op needs from another layer: for F that of the layer before; for B, BW, and
/// a W without either (the first layer has no input gradient) that of the layer after. NULL if op
/// needs none or it was not recorded.
const trace_op *trace_op_producer(const trace_op_index *index, const trace_op *op);
