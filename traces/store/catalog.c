#include "traces/store/catalog.h"

#include "base/arena.h"
#include "base/text.h"
#include "traces/store/columns.h"
#include "traces/store/op_table.h"
#include "traces/store/sql.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SELECT_INFO                                                                                \
    "SELECT trace_id, " SQL_STATUS ", name, source, device, layer_count, microbatch_count,"        \
    " tokens_per_microbatch, embedding, head, backward_split, has_split, times, split,"            \
    " communication, activations, parameters AS parameters_known, messages, recorded_by, "         \
    "tool_version, imported_at,"                                                                   \
    " host, (SELECT count(*) FROM loads WHERE loads.trace_id=trace.trace_id),"                     \
    " (SELECT min(iteration) FROM loads WHERE loads.trace_id=trace.trace_id) AS iteration,"        \
    " (SELECT max(iteration) FROM loads WHERE loads.trace_id=trace.trace_id) AS iteration,"        \
    " (SELECT CAST(text AS INTEGER) FROM trace_note WHERE trace_note.trace_id=trace.trace_id"      \
    " AND key='" TRACE_NOTE_OUTSIDE "') FROM trace JOIN process USING(process_id)"

/// The place of the word in a column among the names of an enum; 0 if it is none of them.
static int word_index(sqlite3_stmt *statement, int column, int count, const char *(*name)(int))
{
    const char *word = (const char *)sqlite3_column_text(statement, column);
    for (int index = 0; index < count && word != NULL; index++) {
        if (strcmp(word, name(index)) == 0) return index;
    }
    return 0;
}

static const char *source_name(int index)
{
    return trace_source_kind_name((trace_source_kind)index);
}

static const char *known_name(int index)
{
    return trace_known_name((trace_known)index);
}

static trace_known known_of(sqlite3_stmt *statement, int column)
{
    return (trace_known)word_index(statement, column, TRACE_KNOWN_COUNT, known_name);
}

/// A row of select_info.
static void read_info(sqlite3_stmt *row, arena *memory, void *item)
{
    trace_info *info = item;
    const int64_t outside_ns = sql_int64(row, 25);
    *info = (trace_info){
        .trace_id = sqlite3_column_int64(row, 0),
        .status = sql_status(row, 1),
        .name = sql_text(row, 2, memory),
        .source = (trace_source_kind)word_index(row, 3, TRACE_SOURCE_COUNT, source_name),
        .device = sql_text(row, 4, memory),
        .layer_count = sqlite3_column_int(row, 5),
        .microbatch_count = sqlite3_column_int(row, 6),
        .tokens_per_microbatch = sql_int64(row, 7),
        .embedding = sqlite3_column_int(row, 8) != 0,
        .head = sqlite3_column_int(row, 9) != 0,
        .backward_split =
            sqlite3_column_type(row, 10) == SQLITE_NULL ? -1 : sqlite3_column_double(row, 10),
        .has_split = sqlite3_column_int(row, 11) != 0,
        .times = known_of(row, 12),
        .split = known_of(row, 13),
        .communication = known_of(row, 14),
        .activations = known_of(row, 15),
        .parameters = known_of(row, 16),
        .messages = known_of(row, 17),
        .recorded_by = sql_text(row, 18, memory),
        .tool_version = sql_text(row, 19, memory),
        .imported_at = sql_text(row, 20, memory),
        .host = sql_text(row, 21, memory),
        .iteration_count = sqlite3_column_int64(row, 22),
        .first_iteration = sql_int64(row, 23),
        .last_iteration = sql_int64(row, 24),
        .microbatch_columns = sqlite3_column_int(row, 6),
        .has_gaps = sqlite3_column_type(row, 25) != SQLITE_NULL,
        // Time outside ops: what the simulator has no op for.
        .outside_ns = outside_ns > 0 && outside_ns <= TRACE_VALUE_MAX ? outside_ns : 0,
    };
}

/// Whether the rows of a trace are means, as the first of them says.
static status read_columns(trace_store *store, trace_info *info, error_message *err)
{
    trace_rows *rows = NULL;
    trace_load load = {0};
    bool is_end = false;
    const int first = (int)info->first_iteration;
    TRY(trace_rows_open(store, info->trace_id, first, first, &rows, err));
    const status result = trace_rows_next(rows, &load, &is_end, err);
    trace_rows_close(rows);
    info->microbatch_columns = load.microbatch == TRACE_MEAN ? 1 : info->microbatch_count;
    return result;
}

/// The traces that a query with the parameters finds, each with what its samples tell.
static status list_traces(trace_store *store, const char *text, int64_t trace_id, arena *memory,
                          trace_info **traces, int *count, error_message *err)
{
    const sql_select select = {text, read_info, sizeof **traces};
    TRY(sql_rows(store, &select, memory, traces, count, err, "i", trace_id));
    for (int trace = 0; trace < *count; trace++) {
        if ((*traces)[trace].iteration_count > 0) TRY(read_columns(store, &(*traces)[trace], err));
    }
    return STATUS_OK;
}

status trace_list(trace_store *store, arena *memory, trace_info **traces, int *count,
                  error_message *err)
{
    return list_traces(store, SELECT_INFO " WHERE trace_id>? ORDER BY trace_id", 0, memory, traces,
                       count, err);
}

status trace_by_id(trace_store *store, int64_t trace_id, arena *memory, trace_info *info,
                   error_message *err)
{
    trace_info *traces = NULL;
    int count = 0;
    TRY(list_traces(store, SELECT_INFO " WHERE trace_id=?", trace_id, memory, &traces, &count,
                    err));
    if (count == 0) {
        return error_set(err, STATUS_INVALID, "%s: no trace %" PRId64, store->path, trace_id);
    }
    *info = traces[0];
    return STATUS_OK;
}

static status unknown_trace(const trace_store *store, const char *name, const trace_info *traces,
                            int count, error_message *err)
{
    const char **names = memory_array((size_t)(count > 0 ? count : 1), sizeof *names);
    for (int trace = 0; trace < count; trace++) {
        names[trace] = traces[trace].name;
    }
    char suggestion[TEXT_SUGGESTION_BYTES];
    text_suggestion(name, names, count, suggestion);
    free(names);
    return error_set(err, STATUS_INVALID, "%s: no trace '%.80s'%s", store->path, name, suggestion);
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
    if (chosen == NULL && name != NULL) return unknown_trace(store, name, traces, count, err);
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

static status layer_rows(trace_store *store, sqlite3_stmt *statement, int layer_count,
                         trace_layer *layers, error_message *err)
{
    for (bool has_row = true;;) {
        TRY(sql_step(store, statement, &has_row, err));
        if (!has_row) return STATUS_OK;
        const int64_t layer = sqlite3_column_int64(statement, 0);
        if (layer < 0 || layer >= layer_count) {
            return error_set(err, STATUS_FORMAT,
                             "%s: table layer: layer %" PRId64 " is outside [0, %d]", store->path,
                             layer, layer_count - 1);
        }
        layers[layer].parameters = sql_int64(statement, 1);
        layers[layer].state_bytes = sql_int64(statement, 2);
        layers[layer].message_bytes = sql_int64(statement, 3);
    }
}

status trace_layers(trace_store *store, const trace_info *info, arena *memory, trace_layer **layers,
                    error_message *err)
{
    trace_layer *all = arena_array(memory, (size_t)info->layer_count, sizeof *all);
    for (int layer = 0; layer < info->layer_count; layer++) {
        all[layer] =
            (trace_layer){layer, TRACE_NOT_RECORDED, TRACE_NOT_RECORDED, TRACE_NOT_RECORDED};
    }
    sqlite3_stmt *statement = NULL;
    TRY(sql_query(
        store, "SELECT layer, parameters, state_bytes, message_bytes FROM layer WHERE trace_id=?",
        info->trace_id, &statement, err));
    const status result = layer_rows(store, statement, info->layer_count, all, err);
    sqlite3_finalize(statement);
    if (result == STATUS_OK) *layers = all;
    return result;
}

/// Adds what is wanted of a block to ops[*count]. @param iteration negative: all
static void add_ops(const trace_op *block, int block_count, int iteration, trace_op **ops,
                    int *count, int *capacity)
{
    for (int op = 0; op < block_count; op++) {
        if (iteration >= 0 && block[op].iteration != iteration) continue;
        if (*count == *capacity) {
            *capacity = *capacity == 0 ? 1024 : 2 * *capacity;
            *ops = memory_resize(*ops, (size_t)*capacity, sizeof **ops);
        }
        (*ops)[(*count)++] = block[op];
    }
}

static status read_op_blocks(trace_store *store, sqlite3_stmt *blocks, int iteration,
                             trace_op **ops, int *count, error_message *err)
{
    int capacity = 0;
    for (;;) {
        trace_op *block = NULL;
        int block_count = 0;
        bool has_row = false;
        TRY(sql_step(store, blocks, &has_row, err));
        if (!has_row) return STATUS_OK;
        TRY(block_read_ops(store, blocks, &block, &block_count, err));
        const bool fits = block_count <= INT_MAX / 2 - *count;
        if (fits) add_ops(block, block_count, iteration, ops, count, &capacity);
        free(block);
        if (!fits) return error_set(err, STATUS_FORMAT, "%s: too many ops", store->path);
    }
}

status trace_ops(trace_store *store, int64_t trace_id, int iteration, arena *memory, trace_op **ops,
                 int *count, error_message *err)
{
    const int64_t first = iteration < 0 ? 0 : iteration;
    const int64_t last = iteration < 0 ? TRACE_ITERATIONS_MAX : iteration;
    sqlite3_stmt *blocks = NULL;
    trace_op *found = NULL;
    int found_count = 0;
    TRY(sql_prepare(store,
                    "SELECT first_iteration, last_iteration, row_count, ops FROM ops"
                    " WHERE trace_id=? AND first_iteration<=? AND last_iteration>=? ORDER BY block",
                    &blocks, err));
    status result = sql_bind(store, blocks, err, "iii", trace_id, last, first);
    if (result == STATUS_OK) {
        result = read_op_blocks(store, blocks, iteration, &found, &found_count, err);
    }
    sqlite3_finalize(blocks);
    if (result == STATUS_OK) {
        trace_ops_sort(found, found_count);
        *ops = arena_array(memory, (size_t)found_count, sizeof **ops);
        if (found_count > 0) memcpy(*ops, found, (size_t)found_count * sizeof **ops);
        *count = found_count;
    }
    free(found);
    return result;
}

struct trace_rows {
    trace_store *store;
    sqlite3_stmt *statement;
    trace_load *loads; // [count] of the iteration that is being read
    int count;
    int next;
};

status trace_rows_open(trace_store *store, int64_t trace_id, int first, int last, trace_rows **rows,
                       error_message *err)
{
    trace_rows *opened = memory_array(1, sizeof *opened);
    opened->store = store;
    status result = sql_prepare(store,
                                "SELECT iteration, row_count, loads FROM loads WHERE trace_id=?"
                                " AND iteration BETWEEN ? AND ? ORDER BY iteration",
                                &opened->statement, err);
    if (result == STATUS_OK) {
        result =
            sql_bind(store, opened->statement, err, "iii", trace_id, (int64_t)first, (int64_t)last);
    }
    if (result != STATUS_OK) {
        trace_rows_close(opened);
        return result;
    }
    *rows = opened;
    return STATUS_OK;
}

status trace_rows_next(trace_rows *rows, trace_load *load, bool *is_end, error_message *err)
{
    if (rows->next == rows->count) {
        bool has_row = false;
        free(rows->loads);
        rows->loads = NULL;
        rows->next = rows->count = 0;
        TRY(sql_step(rows->store, rows->statement, &has_row, err));
        *is_end = !has_row;
        if (!has_row) return STATUS_OK;
        TRY(block_read_loads(rows->store, rows->statement, &rows->loads, &rows->count, err));
    }
    *is_end = false;
    *load = rows->loads[rows->next++];
    return STATUS_OK;
}

void trace_rows_close(trace_rows *rows)
{
    if (rows == NULL) return;
    free(rows->loads);
    sqlite3_finalize(rows->statement);
    free(rows);
}
