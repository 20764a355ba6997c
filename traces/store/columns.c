#include "traces/store/columns.h"

#include "base/arena.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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

static bool columns_hold(const trace_column *column, int64_t value)
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

static status columns_refuse(const trace_store *store, const trace_column *column, int64_t value,
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

/// Where a struct holds what a column is of. Names are those of columns.
typedef struct field {
    const char *name;
    size_t offset;
    bool is_int; // else int64_t
} field;

typedef struct layout {
    const field *fields;
    int field_count;
    size_t row_bytes;
} layout;

#define INT_OF(type, member, name)                                                                 \
    {                                                                                              \
        name, offsetof(type, member), true                                                         \
    }
#define LONG_OF(type, member)                                                                      \
    {                                                                                              \
#member, offsetof(type, member), false                                                     \
    }

static const field load_fields[] = {
    INT_OF(trace_load, layer, "layer"),
    INT_OF(trace_load, microbatch, "microbatch"),
    LONG_OF(trace_load, forward_ns),
    LONG_OF(trace_load, backward_ns),
    LONG_OF(trace_load, backward_input_ns),
    LONG_OF(trace_load, backward_weight_ns),
    LONG_OF(trace_load, recompute_ns),
    LONG_OF(trace_load, communication_ns),
    LONG_OF(trace_load, span_ns),
    LONG_OF(trace_load, activation_bytes),
    LONG_OF(trace_load, forward_charge_ns),
    LONG_OF(trace_load, backward_charge_ns),
    LONG_OF(trace_load, backward_input_charge_ns),
    LONG_OF(trace_load, backward_weight_charge_ns),
    LONG_OF(trace_load, recompute_charge_ns),
};
static const field op_fields[] = {
    INT_OF(trace_op, iteration, "iteration"),
    INT_OF(trace_op, rank, "rank"),
    INT_OF(trace_op, kind, "op_kind"),
    INT_OF(trace_op, stage, "stage"),
    INT_OF(trace_op, layer, "layer"),
    INT_OF(trace_op, microbatch, "microbatch"),
    LONG_OF(trace_op, begin_ns),
    LONG_OF(trace_op, end_ns),
    LONG_OF(trace_op, busy_ns),
    INT_OF(trace_op, replica, "replica"),
    INT_OF(trace_op, chunk, "chunk"),
    INT_OF(trace_op, name, "name_index"),
};
_Static_assert(sizeof(trace_op_kind) == sizeof(int), "a kind is read and written as an int");
enum {
    LOAD_FIELDS = sizeof load_fields / sizeof load_fields[0],
    OP_FIELDS = sizeof op_fields / sizeof op_fields[0],
    HEAD_BYTES = 9 // of a column
};
static const layout of_loads = {load_fields, LOAD_FIELDS, sizeof(trace_load)};
static const layout of_ops = {op_fields, OP_FIELDS, sizeof(trace_op)};

static int64_t value_of(const unsigned char *row, const field *of)
{
    int64_t value = 0;
    int small = 0;
    if (!of->is_int) {
        memcpy(&value, row + of->offset, sizeof value);
        return value;
    }
    memcpy(&small, row + of->offset, sizeof small);
    return small;
}

static void set_value(unsigned char *row, const field *of, int64_t value)
{
    const int small = (int)value;
    if (of->is_int) {
        memcpy(row + of->offset, &small, sizeof small);
    } else {
        memcpy(row + of->offset, &value, sizeof value);
    }
}

static unsigned char *put_bytes(unsigned char *at, uint64_t value, int width)
{
    for (int byte = 0; byte < width; byte++) {
        *at++ = (unsigned char)(value >> (8 * byte));
    }
    return at;
}

static uint64_t get_bytes(const unsigned char *at, int width)
{
    uint64_t value = 0;
    for (int byte = 0; byte < width; byte++) {
        value |= (uint64_t)at[byte] << (8 * byte);
    }
    return value;
}

/// The smallest value of a column and how many bytes the others need above it.
static int measure(const layout *of, int place, const unsigned char *rows, int count, int64_t *base)
{
    const field *column = &of->fields[place];
    int64_t largest = value_of(rows, column);
    int width = place == 0;
    *base = largest;
    for (int row = 1; row < count; row++) {
        const int64_t value = value_of(rows + (size_t)row * of->row_bytes, column);
        if (value < *base) *base = value;
        if (value > largest) largest = value;
    }
    const uint64_t range = (uint64_t)largest - (uint64_t)*base;
    while (width < 8 && range >> (8 * width) != 0) {
        width++;
    }
    return width;
}

static unsigned char *pack(const layout *of, const void *items, int count, size_t *length)
{
    const unsigned char *rows = items;
    int64_t bases[LOAD_FIELDS > OP_FIELDS ? LOAD_FIELDS : OP_FIELDS];
    int widths[LOAD_FIELDS > OP_FIELDS ? LOAD_FIELDS : OP_FIELDS];
    *length = 0;
    for (int place = 0; place < of->field_count; place++) {
        widths[place] = measure(of, place, rows, count, &bases[place]);
        *length += HEAD_BYTES + (size_t)count * (size_t)widths[place];
    }
    unsigned char *block = memory_array(*length, 1);
    unsigned char *at = block;
    for (int place = 0; place < of->field_count; place++) {
        *at++ = (unsigned char)widths[place];
        at = put_bytes(at, (uint64_t)bases[place], 8);
        for (int row = 0; row < count && widths[place] > 0; row++) {
            const int64_t value = value_of(rows + (size_t)row * of->row_bytes, &of->fields[place]);
            at = put_bytes(at, (uint64_t)value - (uint64_t)bases[place], widths[place]);
        }
    }
    return block;
}

static status corrupt(const trace_store *store, error_message *err)
{
    return error_set(err, STATUS_FORMAT,
                     "%s: corrupt: a block of loads or ops is not what a "
                     "writer puts there",
                     store->path);
}

/// One column into the rows. @param left bytes of the block from *at on
static status unpack_column(trace_store *store, const layout *of, int place,
                            const unsigned char **at, size_t *left, unsigned char *rows, int count,
                            error_message *err)
{
    const field *column = &of->fields[place];
    const trace_column *limits = columns_find(column->name);
    if (*left < HEAD_BYTES) return corrupt(store, err);
    const int width = (*at)[0];
    const uint64_t base = get_bytes(*at + 1, 8);
    *at += HEAD_BYTES;
    *left -= HEAD_BYTES;
    if (width > 8 || width < (place == 0) || (size_t)width * (size_t)count > *left) {
        return corrupt(store, err);
    }
    for (int row = 0; row < count; row++, *at += width) {
        const int64_t value = (int64_t)(base + get_bytes(*at, width));
        if (!columns_hold(limits, value)) return columns_refuse(store, limits, value, err);
        set_value(rows + (size_t)row * of->row_bytes, column, value);
    }
    *left -= (size_t)width * (size_t)count;
    return STATUS_OK;
}

/// @param column of the row that holds the block, after that of its number of rows
static status unpack(trace_store *store, const layout *of, sqlite3_stmt *row, int column,
                     unsigned char **rows, int *count, error_message *err)
{
    const unsigned char *at = sqlite3_column_blob(row, column);
    size_t left = (size_t)sqlite3_column_bytes(row, column);
    const int row_count = sqlite3_column_int(row, column - 1);
    status result = STATUS_OK;
    if (at == NULL || row_count < 1 || (size_t)row_count > left) return corrupt(store, err);
    *rows = memory_array((size_t)row_count, of->row_bytes);
    *count = row_count;
    for (int place = 0; place < of->field_count && result == STATUS_OK; place++) {
        result = unpack_column(store, of, place, &at, &left, *rows, row_count, err);
    }
    if (result == STATUS_OK && left > 0) result = corrupt(store, err);
    if (result != STATUS_OK) free(*rows);
    return result;
}

unsigned char *block_of_loads(const trace_load *loads, int count, size_t *length)
{
    return pack(&of_loads, loads, count, length);
}

unsigned char *block_of_ops(const trace_op *ops, int count, size_t *length)
{
    return pack(&of_ops, ops, count, length);
}

status block_read_loads(trace_store *store, sqlite3_stmt *row, trace_load **loads, int *count,
                        error_message *err)
{
    unsigned char *rows = NULL;
    int row_count = 0;
    TRY(unpack(store, &of_loads, row, 2, &rows, &row_count, err));
    trace_load *all = (trace_load *)(void *)rows;
    for (int load = 0; load < row_count; load++) {
        const trace_load *before = load > 0 ? &all[load - 1] : NULL;
        all[load].iteration = sqlite3_column_int(row, 0);
        if (before == NULL || before->layer < all[load].layer ||
            (before->layer == all[load].layer && before->microbatch < all[load].microbatch)) {
            continue;
        }
        free(rows);
        return corrupt(store, err);
    }
    *loads = all;
    *count = row_count;
    return STATUS_OK;
}

status block_read_ops(trace_store *store, sqlite3_stmt *row, trace_op **ops, int *count,
                      error_message *err)
{
    unsigned char *rows = NULL;
    int row_count = 0;
    TRY(unpack(store, &of_ops, row, 3, &rows, &row_count, err));
    trace_op *all = (trace_op *)(void *)rows;
    for (int op = 0; op < row_count; op++) {
        if (all[op].iteration >= sqlite3_column_int(row, 0) &&
            all[op].iteration <= sqlite3_column_int(row, 1)) {
            continue;
        }
        free(rows);
        return corrupt(store, err);
    }
    *ops = all;
    *count = row_count;
    return STATUS_OK;
}
