#include "traces/store/catalog.h"

#include "base/arena.h"
#include "base/text.h"
#include "traces/store/op_table.h"
#include "traces/store/sql.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define OF_LOADS(what) "(SELECT " what " FROM loads WHERE loads.trace_id=trace.trace_id)"
#define OF_OUTSIDE(what)                                                                           \
    "(SELECT " what " FROM trace_note WHERE trace_note.trace_id=trace.trace_id"                    \
    " AND key='" TRACE_NOTE_OUTSIDE "')"
#define KNOWN_FIELD(member, column)                                                                \
    {                                                                                              \
        column, offsetof(trace_info, member), SQL_WORD, trace_known_names, TRACE_KNOWN_COUNT       \
    }
static const sql_field info_fields[] = {
    SQL_FIELD(trace_info, trace_id, SQL_LONG),
    {SQL_STATUS, offsetof(trace_info, status), SQL_WORD, trace_status_names, TRACE_STATUS_COUNT},
    SQL_FIELD(trace_info, name, SQL_TEXT),
    {"source", offsetof(trace_info, source), SQL_WORD, trace_source_names, TRACE_SOURCE_COUNT},
    SQL_FIELD(trace_info, device, SQL_TEXT),
    SQL_FIELD(trace_info, layer_count, SQL_INT),
    SQL_FIELD(trace_info, microbatch_count, SQL_INT),
    SQL_FIELD_AS(trace_info, microbatch_columns, SQL_INT, "microbatch_count"),
    SQL_FIELD(trace_info, tokens_per_microbatch, SQL_OPTIONAL),
    SQL_FIELD(trace_info, embedding, SQL_FLAG),
    SQL_FIELD(trace_info, head, SQL_FLAG),
    SQL_FIELD(trace_info, backward_split, SQL_REAL),
    SQL_FIELD(trace_info, has_split, SQL_FLAG),
    KNOWN_FIELD(times, "times"),
    KNOWN_FIELD(split, "split"),
    KNOWN_FIELD(communication, "communication"),
    KNOWN_FIELD(activations, "activations"),
    KNOWN_FIELD(parameters, "parameters AS parameters_known"),
    KNOWN_FIELD(messages, "messages"),
    SQL_FIELD(trace_info, recorded_by, SQL_TEXT),
    SQL_FIELD(trace_info, tool_version, SQL_TEXT),
    SQL_FIELD(trace_info, imported_at, SQL_TEXT),
    SQL_FIELD(trace_info, host, SQL_TEXT),
    SQL_FIELD_AS(trace_info, iteration_count, SQL_LONG, OF_LOADS("count(*)")),
    SQL_FIELD_AS(trace_info, first_iteration, SQL_OPTIONAL,
                 OF_LOADS("min(iteration)") " AS iteration"),
    SQL_FIELD_AS(trace_info, last_iteration, SQL_OPTIONAL,
                 OF_LOADS("max(iteration)") " AS iteration"),
    SQL_FIELD_AS(trace_info, has_gaps, SQL_FLAG, OF_OUTSIDE("1")),
    SQL_FIELD_AS(trace_info, outside_ns, SQL_LONG, OF_OUTSIDE("CAST(text AS INTEGER)")),
};
static const sql_record of_info = SQL_RECORD(trace_info, info_fields);

static const sql_field layer_fields[] = {
    SQL_FIELD(trace_layer, layer, SQL_INT),
    SQL_FIELD(trace_layer, parameters, SQL_OPTIONAL),
    SQL_FIELD(trace_layer, state_bytes, SQL_OPTIONAL),
    SQL_FIELD(trace_layer, message_bytes, SQL_OPTIONAL),
};
static const sql_record of_layer = SQL_RECORD(trace_layer, layer_fields);

/// Whether the rows of a trace are means, as the first of them says.
static status read_columns(trace_store *store, trace_info *info, error_message *err)
{
    trace_load *loads = NULL;
    int count = 0;
    TRY(trace_loads_at(store, info->trace_id, (int)info->first_iteration, &loads, &count, err));
    if (count > 0 && loads[0].microbatch == TRACE_MEAN) info->microbatch_columns = 1;
    free(loads);
    return STATUS_OK;
}

/// The traces that a query with the parameter finds, each with what its samples tell.
static status list_traces(trace_store *store, const char *from, int64_t trace_id, arena *memory,
                          trace_info **traces, int *count, error_message *err)
{
    TRY(sql_rows(store, &of_info, from, memory, traces, count, err, "i", trace_id));
    for (int trace = 0; trace < *count; trace++) {
        trace_info *info = &(*traces)[trace];
        // Time outside ops: what the simulator has no op for.
        if (info->outside_ns < 0 || info->outside_ns > TRACE_VALUE_MAX) info->outside_ns = 0;
        if (info->iteration_count > 0) TRY(read_columns(store, info, err));
    }
    return STATUS_OK;
}

#define TRACE_TABLES " FROM trace JOIN process USING(process_id) WHERE trace_id"

status trace_list(trace_store *store, arena *memory, trace_info **traces, int *count,
                  error_message *err)
{
    return list_traces(store, TRACE_TABLES ">? ORDER BY trace_id", 0, memory, traces, count, err);
}

status trace_by_id(trace_store *store, int64_t trace_id, arena *memory, trace_info *info,
                   error_message *err)
{
    trace_info *traces = NULL;
    int count = 0;
    TRY(list_traces(store, TRACE_TABLES "=?", trace_id, memory, &traces, &count, err));
    if (count == 0) {
        return error_set(err, STATUS_INVALID, "%s: no trace %" PRId64, store->path, trace_id);
    }
    *info = traces[0];
    return STATUS_OK;
}

static status unknown_trace(const trace_store *store, const char *name, const trace_info *traces,
                            int count, arena *memory, error_message *err)
{
    const char **names = arena_array(memory, (size_t)count, sizeof *names);
    char suggestion[TEXT_SUGGESTION_BYTES];
    for (int trace = 0; trace < count; trace++) {
        names[trace] = traces[trace].name;
    }
    return error_set(err, STATUS_INVALID, "%s: no trace '%.80s'%s", store->path, name,
                     text_suggestion(name, names, count, suggestion));
}

/// The trace that name means among [count]; NULL if there is none.
static const trace_info *choose(const char *name, const trace_info *traces, int count)
{
    int64_t number = 0;
    const trace_info *newest = NULL;
    for (int trace = 0; trace < count; trace++) {
        if (name != NULL && strcmp(traces[trace].name, name) == 0) return &traces[trace];
        if (traces[trace].status == TRACE_COMPLETE) newest = &traces[trace];
    }
    if (name == NULL) return newest;
    if (text_parse_int64(name, "trace", 1, INT64_MAX, &number, NULL) != STATUS_OK) return NULL;
    for (int trace = 0; trace < count; trace++) {
        if (traces[trace].trace_id == number) return &traces[trace];
    }
    return NULL;
}

status trace_find(trace_store *store, const char *name, arena *memory, trace_info *info,
                  error_message *err)
{
    trace_info *traces = NULL;
    int count = 0;
    TRY(trace_list(store, memory, &traces, &count, err));
    const trace_info *chosen = choose(name, traces, count);
    if (chosen == NULL && name != NULL) {
        return unknown_trace(store, name, traces, count, memory, err);
    }
    if (chosen == NULL) {
        return error_set(err, STATUS_INVALID, "%s: holds no complete trace", store->path);
    }
    if (chosen->status != TRACE_COMPLETE) {
        return error_set(err, STATUS_INVALID, "%s: trace '%.80s' is not complete: %s", store->path,
                         chosen->name,
                         chosen->status == TRACE_RUNNING ? "it is still being written"
                                                         : "its writer was interrupted");
    }
    *info = *chosen;
    return STATUS_OK;
}

status trace_layers(trace_store *store, const trace_info *info, arena *memory, trace_layer **layers,
                    int *count, error_message *err)
{
    TRY(sql_rows(store, &of_layer, " FROM layer WHERE trace_id=? ORDER BY layer", memory, layers,
                 count, err, "i", info->trace_id));
    const int last = *count > 0 ? (*layers)[*count - 1].layer : -1;
    if (last < info->layer_count) return STATUS_OK;
    return error_set(err, STATUS_FORMAT, "%s: table layer: layer %d is outside [0, %d]",
                     store->path, last, info->layer_count - 1);
}

/// Adds what is wanted of a block, a row of blocks, to ops[*count]. @param iteration negative: all
static status add_ops(trace_store *store, sqlite3_stmt *blocks, int iteration, arena *memory,
                      trace_op **ops, int *count, error_message *err)
{
    trace_op *block = NULL;
    int block_count = 0;
    TRY(block_read_ops(store, blocks, &block, &block_count, err));
    const bool fits = block_count <= INT_MAX / 2 - *count;
    for (int op = 0; op < block_count && fits; op++) {
        if (iteration >= 0 && block[op].iteration != iteration) continue;
        *ops = arena_grow(memory, *ops, (size_t)*count, sizeof **ops);
        (*ops)[(*count)++] = block[op];
    }
    free(block);
    return fits ? STATUS_OK : error_set(err, STATUS_FORMAT, "%s: too many ops", store->path);
}

status trace_ops(trace_store *store, int64_t trace_id, int iteration, arena *memory, trace_op **ops,
                 int *count, error_message *err)
{
    const int64_t first = iteration < 0 ? 0 : iteration;
    const int64_t last = iteration < 0 ? TRACE_ITERATIONS_MAX : iteration;
    sqlite3_stmt *blocks = NULL;
    bool has_row = false;
    trace_op *found = NULL;
    int found_count = 0;
    TRY(sql_query(store, &blocks, err,
                  "SELECT first_iteration, last_iteration, row_count, ops FROM ops"
                  " WHERE trace_id=? AND first_iteration<=? AND last_iteration>=? ORDER BY block",
                  "iii", trace_id, last, first));
    status result = sql_step(store, blocks, &has_row, err);
    while (result == STATUS_OK && has_row) {
        result = add_ops(store, blocks, iteration, memory, &found, &found_count, err);
        if (result == STATUS_OK) result = sql_step(store, blocks, &has_row, err);
    }
    sqlite3_finalize(blocks);
    TRY(result);
    trace_ops_sort(found, found_count);
    *ops = found;
    *count = found_count;
    return STATUS_OK;
}

status trace_next_sample(trace_store *store, int64_t trace_id, int iteration, int *sample,
                         error_message *err)
{
    int64_t found = -1;
    TRY(sql_get(store, &found, err,
                "SELECT min(iteration) AS iteration FROM loads WHERE trace_id=? AND iteration>?",
                "ii", trace_id, (int64_t)iteration));
    *sample = (int)found;
    return STATUS_OK;
}

status trace_loads_at(trace_store *store, int64_t trace_id, int iteration, trace_load **loads,
                      int *count, error_message *err)
{
    sqlite3_stmt *row = NULL;
    bool has_row = false;
    *loads = NULL;
    *count = 0;
    TRY(sql_query(store, &row, err,
                  "SELECT iteration, row_count, loads FROM loads WHERE trace_id=? AND iteration=?",
                  "ii", trace_id, (int64_t)iteration));
    status result = sql_step(store, row, &has_row, err);
    if (has_row) result = block_read_loads(store, row, loads, count, err);
    sqlite3_finalize(row);
    return result;
}
