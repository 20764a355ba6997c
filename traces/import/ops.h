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

#include "traces/import/stream.h"
#include "traces/store/op_table.h"

#include <stdbool.h>

/// Other names than the defaults, as options spell them; NULL: none.
typedef struct trace_ops_words {
    const char *columns; // "step=iteration,start_us=ts": what is meant = what the file calls it
    const char *kinds;   // "fwd=forward,tp-sync=local": what the file calls it = what it is, one of
                         // forward, backward, backward-input, backward-weight, forward-send,
                         // forward-recv, backward-send, backward-recv, local, replicas, ends,
                         // pipeline, world
} trace_ops_words;

/// What kind of op a name is: by the words, else by the names that tracers use, else local.
///
/// @param is_known out: false where it was taken as local for want of anything else
trace_op_kind trace_ops_kind(const char *name, const trace_ops_words *words, bool *is_known);

/// Reads a whole file. All of it is held: its bytes, and 72 bytes per op.
///
/// @param path  for messages
/// @param table carved from memory
/// @return STATUS_INVALID for words that name nothing; STATUS_FORMAT with "file:line: column: ..."
///         (JSON: "file: event n: ...") for a missing or unknown column, a cell that is no number
///         or outside its limits, an F or backward that stands twice, none at all; what
///         trace_stream_read says
status trace_ops_read(trace_stream *stream, const char *path, const trace_ops_words *words,
                      arena *memory, trace_op_table *table, error_message *err);
