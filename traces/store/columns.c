#include "traces/store/columns.h"

#include "traces/store/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef enum column_kind {
    NUMBER, ///< an integer in [min, max]
    RATIO,  ///< a real in [min, max]
    NAME,   ///< one line, which stands in tables and in files for other programs
    TEXT,
    BYTES
} column_kind;

/// Columns of the same name mean the same in every table.
struct trace_column {
    const char *name;
    column_kind kind;
    bool may_be_null;
    int64_t min;
    int64_t max;
};

#define STAMP_MAX (INT64_C(1) << 61) // of clocks, which may begin anywhere: differences fit

// By name, for a search.
static const trace_column columns[] = {
    {"action", NAME, false, 0, 0},
    {"activation_bytes", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"activations", NAME, false, 0, 0},
    {"awaited_count", NUMBER, false, 0, INT_MAX},
    {"backward_charge_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"backward_input_charge_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"backward_input_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"backward_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"backward_split", RATIO, true, 0, 1},
    {"backward_weight_charge_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"backward_weight_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"begin_ns", NUMBER, false, -STAMP_MAX, STAMP_MAX},
    {"block", NUMBER, false, 0, INT_MAX},
    {"boot", TEXT, false, 0, 0},
    {"bubble_ratio", RATIO, false, -1, 1},
    {"busy_ns", NUMBER, true, 0, INT64_MAX},
    {"bytes", NUMBER, false, 0, INT64_MAX},
    {"changed", NUMBER, true, 0, 1},
    {"chunk", NUMBER, false, 0, INT_MAX},
    {"command_line", TEXT, false, 0, 0},
    {"communication", NAME, false, 0, 0},
    {"communication_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"config_json", TEXT, true, 0, 0},
    {"decision_ns", NUMBER, false, 0, TRACE_VALUE_MAX},
    {"device", TEXT, true, 0, 0},
    {"embedding", NUMBER, false, 0, 1},
    {"end_ns", NUMBER, false, -STAMP_MAX, STAMP_MAX},
    {"finished_at", TEXT, true, 0, 0},
    {"first_iteration", NUMBER, false, 0, TRACE_ITERATIONS_MAX},
    {"forward_charge_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"forward_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"from_iteration", NUMBER, false, 0, TRACE_ITERATIONS_MAX},
    {"has_split", NUMBER, false, 0, 1},
    {"hash", NAME, false, 0, 0},
    {"head", NUMBER, false, 0, 1},
    {"host", TEXT, false, 0, 0},
    {"identity", TEXT, false, 0, 0},
    {"imbalance_ratio", RATIO, false, 0, INT64_MAX},
    {"imported_at", TEXT, false, 0, 0},
    {"item", NUMBER, false, 0, INT64_MAX},
    {"iteration", NUMBER, true, 0, TRACE_ITERATIONS_MAX}, // of a trace without a sample: none
    {"iteration_ns", NUMBER, false, 0, TRACE_VALUE_MAX},
    {"key", NAME, false, 0, 0},
    {"kind", NAME, false, 0, 0},
    {"label", NAME, false, 0, 0},
    {"last_iteration", NUMBER, false, 0, TRACE_ITERATIONS_MAX},
    {"layer", NUMBER, true, 0, TRACE_LAYERS_MAX},
    {"layer_count", NUMBER, false, 0, TRACE_LAYERS_MAX},
    {"loads", BYTES, false, 0, 0},
    {"makespan_ns", NUMBER, false, 0, TRACE_VALUE_MAX},
    {"median_ns", NUMBER, false, 0, TRACE_VALUE_MAX},
    {"message", TEXT, true, 0, 0},
    {"message_bytes", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"messages", NAME, false, 0, 0},
    {"microbatch", NUMBER, true, TRACE_MEAN, TRACE_MICROBATCHES_MAX},
    {"microbatch_count", NUMBER, false, 0, TRACE_MICROBATCHES_MAX},
    {"migration_ns", NUMBER, false, 0, TRACE_VALUE_MAX},
    {"moved_bytes", NUMBER, false, 0, TRACE_VALUE_MAX},
    {"moved_layer_count", NUMBER, false, 0, INT_MAX},
    {"name", NAME, false, 0, 0},
    {"name_index", NUMBER, false, 0, INT_MAX}, // op.name
    {"op_count", NUMBER, false, 0, INT_MAX},
    {"op_kind", NUMBER, false, 0, TRACE_OP_COUNT - 1}, // of a block of ops
    {"ops", BYTES, false, 0, 0},
    {"parameters", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"parameters_known", NAME, false, 0, 0}, // trace.parameters
    {"pass", NUMBER, false, 0, INT_MAX},
    {"path", TEXT, false, 0, 0},
    {"pid", NUMBER, false, 0, INT_MAX},
    {"pid_namespace", TEXT, false, 0, 0},
    {"place", NUMBER, false, 0, INT64_MAX},
    {"plan_id", NUMBER, true, 0, INT64_MAX},
    {"plan_json", TEXT, false, 0, 0},
    {"process_id", NUMBER, false, 0, INT64_MAX},
    {"rank", NUMBER, false, 0, TRACE_RANKS_MAX - 1},
    {"rank_count", NUMBER, false, 0, TRACE_RANKS_MAX},
    {"reason", NAME, false, 0, 0},
    {"rebalanced", NUMBER, false, 0, 1},
    {"recompute_charge_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"recompute_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"recorded_by", TEXT, true, 0, 0},
    {"replica", NUMBER, false, 0, INT_MAX},
    {"replica_count", NUMBER, false, 0, INT_MAX},
    {"result", BYTES, false, 0, 0},
    {"result_id", NUMBER, false, 0, INT64_MAX},
    {"result_json", TEXT, false, 0, 0},
    {"row_count", NUMBER, false, 1, INT_MAX},
    {"run_id", NUMBER, true, 0, INT64_MAX}, // the newest of none
    {"seed", NUMBER, false, INT64_MIN, INT64_MAX},
    {"series", NAME, false, 0, 0},
    {"series_id", NUMBER, false, 0, INT64_MAX},
    {"source", NAME, false, 0, 0},
    {"span_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"split", NAME, false, 0, 0},
    {"stage", NUMBER, true, 0, INT_MAX},
    {"start_ticks", NUMBER, false, 0, INT64_MAX},
    {"started_at", TEXT, false, 0, 0},
    {"state_bytes", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"status", NAME, false, 0, 0},
    {"text", TEXT, false, 0, 0},
    {"times", NAME, false, 0, 0},
    {"tokens_per_microbatch", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"tool_version", TEXT, true, 0, 0},
    {"trace_id", NUMBER, false, 0, INT64_MAX},
    {"travel_ns", NUMBER, true, 0, TRACE_VALUE_MAX},
    {"work_ns", NUMBER, false, 0, TRACE_VALUE_MAX},
};

const trace_column *columns_find(const char *name)
{
    int low = 0;
    int high = (int)(sizeof columns / sizeof columns[0]) - 1;
    while (low <= high) {
        const int middle = (low + high) / 2;
        const int order = strcmp(name, columns[middle].name);
        if (order == 0) return &columns[middle];
        if (order < 0) high = middle - 1;
        if (order > 0) low = middle + 1;
    }
    return NULL;
}

bool columns_hold(const trace_column *column, int64_t value)
{
    return (value >= column->min && value <= column->max) ||
           (value == TRACE_NOT_RECORDED && column->may_be_null);
}

static status refuse_number(const trace_store *store, const trace_column *column, const char *value,
                            error_message *err)
{
    return error_set(err, STATUS_FORMAT,
                     "%.150s: column %s holds %.40s, not a number in [%" PRId64 ", %" PRId64 "]",
                     store->path, column->name, value, column->min, column->max);
}

status columns_refuse(const trace_store *store, const trace_column *column, int64_t value,
                      error_message *err)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    return refuse_number(store, column, text, err);
}

/// Looks the columns up once for all rows of a statement.
static void look_up(trace_store *store, sqlite3_stmt *statement)
{
    const int count = sqlite3_column_count(statement);
    assert(count <= SQL_COLUMNS_MAX);
    for (int column = 0; column < count; column++) {
        const char *name = sqlite3_column_name(statement, column);
        store->columns[column] = name != NULL ? columns_find(name) : NULL;
    }
    store->column_count = count;
    store->checked = statement;
}

static status refuse(const trace_store *store, sqlite3_stmt *statement, int place,
                     error_message *err)
{
    const trace_column *column = store->columns[place];
    const char *text = (const char *)sqlite3_column_text(statement, place);
    if (column->kind == NUMBER || column->kind == RATIO) {
        return refuse_number(store, column, text != NULL ? text : "nothing", err);
    }
    return error_set(err, STATUS_FORMAT, "%.150s: column %s holds '%.40s', not %s", store->path,
                     column->name, text != NULL ? text : "nothing",
                     column->kind == NAME ? "a text of one line" : "what it should");
}

static bool is_one_line(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f) return false;
    }
    return true;
}

static bool holds(const trace_column *column, sqlite3_stmt *statement, int place)
{
    const int type = sqlite3_column_type(statement, place);
    if (type == SQLITE_NULL) return column->may_be_null;
    switch (column->kind) {
    case NUMBER: {
        const int64_t value = sqlite3_column_int64(statement, place);
        return type == SQLITE_INTEGER && value >= column->min && value <= column->max;
    }
    case RATIO: {
        const double value = sqlite3_column_double(statement, place);
        const bool is_number = type == SQLITE_FLOAT || type == SQLITE_INTEGER;
        return is_number && value >= (double)column->min && value <= (double)column->max;
    }
    case NAME:
        return type == SQLITE_TEXT &&
               is_one_line((const char *)sqlite3_column_text(statement, place));
    default:
        return type == SQLITE_TEXT || (column->kind == BYTES && type == SQLITE_BLOB);
    }
}

status columns_check_row(trace_store *store, sqlite3_stmt *statement, error_message *err)
{
    if (store->checked != statement) look_up(store, statement);
    for (int place = 0; place < store->column_count; place++) {
        const trace_column *column = store->columns[place];
        if (column == NULL || holds(column, statement, place)) continue;
        return refuse(store, statement, place, err);
    }
    return STATUS_OK;
}
