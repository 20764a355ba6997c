/// The native trace format, "dynmo-trace/1": CSV, plain or gzip.
///
/// First line `# dynmo-trace/1`; then lines `# key=value`, of which source, device, embedding,
/// head, tokens_per_microbatch and microbatches mean something and others are kept as notes; then a
/// row that names the columns, in any order; then a row per (iteration, microbatch, layer, phase).
///
///     iteration,layer,phase,busy_ns   needed; phase is F, B (input gradient), W (weight gradient),
///                                     BW (both in one) or R (recompute, not part of B or BW)
///     microbatch                      where it is absent or empty, which must be so in all rows,
///                                     the row is the mean over the iteration's microbatches
///     rank,start_ns,span_ns           the wall time of the op; with all three it also goes to the
///                                     timeline
///     communication_ns, activation_bytes, parameters, message_bytes
///
/// Every cell is an integer in [0, 2^53] (start_ns: any that is not negative) or empty: not
/// recorded. A phase without a row costs nothing. Rows may come in any order. Cells are not quoted,
/// and every line ends with a line feed.
#pragma once

#include "base/status.h"
#include "traces/import/import_replay.h"
#include "traces/store/stream.h"
#include "traces/store/writer.h"

/// One trace that is read from several files: of several ranks, or one after another in time.
typedef struct trace_csv trace_csv;

/// Begins a trace.
///
/// @param info name, tool_version, backward_split and gaps count; the files give the rest
/// @param csv  owned by the caller; ends with trace_csv_finish or trace_csv_abort
status trace_csv_begin(trace_store *store, const trace_info *info, trace_csv **csv,
                       error_message *err);

/// Adds all rows of a file. Memory does not grow with its length.
///
/// @return STATUS_FORMAT with "file:line: column: ..." for anything that is not as above, a phase
///         given twice (also by another file), or metadata that contradicts another file's. Only
///         trace_csv_abort is left then. The source that the first file names is kept, and notes of
///         the second file have " [2]" after their key, and so on.
status trace_csv_read(trace_csv *csv, trace_stream *stream, error_message *err);

/// Commits the trace. csv is gone afterwards, also on failure.
///
/// @param trace_id out, may be NULL
/// @param replay   out, as of trace_replay_of_store; may be NULL
status trace_csv_finish(trace_csv *csv, int64_t *trace_id, trace_replay *replay,
                        error_message *err);

/// Leaves nothing of the trace in the store. NULL is allowed.
void trace_csv_abort(trace_csv *csv);
