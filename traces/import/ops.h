/// A run as its ops were recorded: a row or event per op of every replica, stage and step, as
/// production tracers of pipeline-parallel training write it. CSV or Chrome trace JSON by content.
///
/// CSV: a line that names the columns, in any order, then a row per op, in any order; cells are not
/// quoted. JSON: complete events ("ph":"X") with ts and dur in us and the rest in args; the name of
/// the event is the kind where args has none; events that do not name a step are passed over.
///
///     step, stage, kind     needed
///     start_s, duration_s   needed, decimals; also in _ms, _us, _ns. On one clock
///     replica, chunk        0 where absent; an empty or negative chunk is none
///     microbatch            of F and backward; where absent or negative, ops of a worker and chunk
///                           are counted in the order in which they ran
///
/// Sends, receives and collectives last until what they carry is there, waiting included; an op of
/// a collective is matched with the same one, counted in order, of each worker that takes part.
#pragma once

#include "traces/store/op_table.h"
#include "traces/store/stream.h"

#include <stdbool.h>

/// What kind of op a name is, as tracers use it or plainly: forward, backward, backward-input,
/// backward-weight, forward-send, forward-recv, backward-send, backward-recv, local, replicas,
/// ends, pipeline, world. Any other is local.
///
/// @param is_known out: false where it is none of these
trace_op_kind trace_ops_kind(const char *name, bool *is_known);

/// Reads a whole file. Of it 40 bytes per op are held, half as much more while those that do not
/// stand by step, worker and begin are sorted.
///
/// @param path    for messages
/// @param columns other names than the defaults: "step=iteration,start_us=ts", what is meant = what
///                the file calls it; NULL: none
/// @param table   out: names and kinds are carved from memory; ops: release with free
/// @return STATUS_INVALID for columns that are none; STATUS_FORMAT with "file:line: column: ..."
///         (JSON: "file: event n: ...") for a missing or unknown column, a cell that is no number
///         or outside its limits, an F or backward that stands twice, none at all; what
///         trace_stream_read says
status trace_ops_read(trace_stream *stream, const char *path, const char *columns, arena *memory,
                      trace_op_table *table, error_message *err);
