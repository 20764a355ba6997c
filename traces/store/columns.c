#include "traces/store/sql.h"

#include "base/arena.h"
#include "base/text.h"

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
struct trace_range {
    const char *columns; // names with blanks between them
    column_kind kind;
    bool may_be_null;
    int64_t min;
    int64_t max;
};

static const trace_range ranges[] = {
    {"decision_ns iteration_ns makespan_ns median_ns migration_ns moved_bytes work_ns", NUMBER,
     false, 0, TRACE_VALUE_MAX},
    {"forward_ns backward_ns backward_input_ns backward_weight_ns recompute_ns forward_charge_ns "
     "backward_charge_ns backward_input_charge_ns backward_weight_charge_ns recompute_charge_ns "
     "communication_ns span_ns travel_ns activation_bytes message_bytes state_bytes parameters "
     "tokens_per_microbatch",
     NUMBER, true, 0, TRACE_VALUE_MAX},
    {"bytes item place process_id result_id series_id start_ticks trace_id", NUMBER, false, 0,
     INT64_MAX},
    {"busy_ns plan_id run_id", NUMBER, true, 0, INT64_MAX}, // of no run, the newest is NULL
    {"begin_ns end_ns", NUMBER, false, -TRACE_CLOCK_MAX, TRACE_CLOCK_MAX},
    {"seed", NUMBER, false, INT64_MIN, INT64_MAX},
    {"awaited_count block chunk moved_layer_count op_count pass pid replica replica_count", NUMBER,
     false, 0, INT_MAX},
    {"name_index", NUMBER, false, 0, INT_MAX}, // the name of an op
    {"stage", NUMBER, true, 0, INT_MAX},
    {"row_count", NUMBER, false, 1, INT_MAX},
    {"first_iteration from_iteration last_iteration", NUMBER, false, 0, TRACE_ITERATIONS_MAX},
    {"iteration", NUMBER, true, 0, TRACE_ITERATIONS_MAX}, // of a trace without a sample: none
    {"layer", NUMBER, true, 0, TRACE_LAYERS_MAX},
    {"layer_count", NUMBER, false, 0, TRACE_LAYERS_MAX},
    {"microbatch", NUMBER, true, TRACE_MEAN, TRACE_MICROBATCHES_MAX},
    {"microbatch_count", NUMBER, false, 0, TRACE_MICROBATCHES_MAX},
    {"rank", NUMBER, false, 0, TRACE_RANKS_MAX - 1},
    {"rank_count", NUMBER, false, 0, TRACE_RANKS_MAX},
    {"op_kind", NUMBER, false, 0, TRACE_OP_COUNT - 1}, // in a block of ops
    {"embedding has_split head rebalanced", NUMBER, false, 0, 1},
    {"changed", NUMBER, true, 0, 1},
    {"backward_split", RATIO, true, 0, 1},
    {"bubble_ratio", RATIO, false, -1, 1},
    {"imbalance_ratio", RATIO, false, 0, INT64_MAX},
    {"action activations communication hash key kind label messages name parameters_known reason "
     "series source split status times",
     NAME, false, 0, 0},
    {"boot command_line host identity imported_at path pid_namespace plan_json result_json "
     "started_at text",
     TEXT, false, 0, 0},
    {"config_json device finished_at message recorded_by tool_version", TEXT, true, 0, 0},
    {"loads ops result", BYTES, false, 0, 0},
};

const trace_range *columns_range(const char *column)
{
    const size_t length = strlen(column);
    for (size_t range = 0; range < sizeof ranges / sizeof ranges[0]; range++) {
        for (const char *at = ranges[range].columns; *at != '\0'; at += strspn(at, " ")) {
            const size_t word = strcspn(at, " ");
            if (word == length && memcmp(at, column, length) == 0) return &ranges[range];
            at += word;
        }
    }
    return NULL;
}

static bool is_in(const trace_range *range, int64_t value)
{
    return (value >= range->min && value <= range->max) ||
           (value == TRACE_NOT_RECORDED && range->may_be_null);
}

static status refuse_number(const trace_store *store, const char *column, const trace_range *range,
                            const char *value, error_message *err)
{
    return error_set(err, STATUS_FORMAT,
                     "%.150s: column %s holds %.40s, not a number in [%" PRId64 ", %" PRId64 "]",
                     store->path, column, value, range->min, range->max);
}

/// Looks the columns up once for all rows of a statement.
static void look_up(trace_store *store, sqlite3_stmt *statement)
{
    const int count = sqlite3_column_count(statement);
    assert(count <= SQL_COLUMNS_MAX);
    for (int column = 0; column < count; column++) {
        const char *name = sqlite3_column_name(statement, column);
        store->columns[column] = name != NULL ? columns_range(name) : NULL;
    }
    store->column_count = count;
    store->checked = statement;
}

static status refuse(const trace_store *store, sqlite3_stmt *statement, int place,
                     error_message *err)
{
    const trace_range *range = store->columns[place];
    const char *column = sqlite3_column_name(statement, place);
    const char *text = (const char *)sqlite3_column_text(statement, place);
    if (text == NULL) text = "nothing";
    if (range->kind == NUMBER || range->kind == RATIO) {
        return refuse_number(store, column, range, text, err);
    }
    return error_set(err, STATUS_FORMAT, "%.150s: column %s holds '%.40s', not %s", store->path,
                     column, text, range->kind == NAME ? "a text of one line" : "what it should");
}

static bool holds(const trace_range *range, sqlite3_stmt *statement, int place)
{
    const int type = sqlite3_column_type(statement, place);
    if (type == SQLITE_NULL) return range->may_be_null;
    switch (range->kind) {
    case NUMBER: {
        const int64_t value = sqlite3_column_int64(statement, place);
        return type == SQLITE_INTEGER && value >= range->min && value <= range->max;
    }
    case RATIO: {
        const double value = sqlite3_column_double(statement, place);
        const bool is_number = type == SQLITE_FLOAT || type == SQLITE_INTEGER;
        return is_number && value >= (double)range->min && value <= (double)range->max;
    }
    case NAME:
        return type == SQLITE_TEXT &&
               !text_has_control((const char *)sqlite3_column_text(statement, place), "");
    default:
        return type == SQLITE_TEXT || (range->kind == BYTES && type == SQLITE_BLOB);
    }
}

status columns_check_row(trace_store *store, sqlite3_stmt *statement, error_message *err)
{
    if (store->checked != statement) look_up(store, statement);
    for (int place = 0; place < store->column_count; place++) {
        const trace_range *range = store->columns[place];
        if (range == NULL || holds(range, statement, place)) continue;
        return refuse(store, statement, place, err);
    }
    return STATUS_OK;
}

static const sql_field load_fields[] = {
    SQL_FIELD(trace_load, layer, SQL_INT),
    SQL_FIELD(trace_load, microbatch, SQL_INT),
    SQL_FIELD_AS(trace_load, time_ns[TRACE_OP_FORWARD], SQL_LONG, "forward_ns"),
    SQL_FIELD_AS(trace_load, time_ns[TRACE_OP_BACKWARD], SQL_LONG, "backward_ns"),
    SQL_FIELD_AS(trace_load, time_ns[TRACE_OP_BACKWARD_INPUT], SQL_LONG, "backward_input_ns"),
    SQL_FIELD_AS(trace_load, time_ns[TRACE_OP_BACKWARD_WEIGHT], SQL_LONG, "backward_weight_ns"),
    SQL_FIELD_AS(trace_load, time_ns[TRACE_OP_RECOMPUTE], SQL_LONG, "recompute_ns"),
    SQL_FIELD(trace_load, communication_ns, SQL_LONG),
    SQL_FIELD(trace_load, span_ns, SQL_LONG),
    SQL_FIELD(trace_load, activation_bytes, SQL_LONG),
    SQL_FIELD_AS(trace_load, charge_ns[TRACE_OP_FORWARD], SQL_LONG, "forward_charge_ns"),
    SQL_FIELD_AS(trace_load, charge_ns[TRACE_OP_BACKWARD], SQL_LONG, "backward_charge_ns"),
    SQL_FIELD_AS(trace_load, charge_ns[TRACE_OP_BACKWARD_INPUT], SQL_LONG,
                 "backward_input_charge_ns"),
    SQL_FIELD_AS(trace_load, charge_ns[TRACE_OP_BACKWARD_WEIGHT], SQL_LONG,
                 "backward_weight_charge_ns"),
    SQL_FIELD_AS(trace_load, charge_ns[TRACE_OP_RECOMPUTE], SQL_LONG, "recompute_charge_ns"),
};
static const sql_field op_fields[] = {
    SQL_FIELD(trace_op, iteration, SQL_INT),
    SQL_FIELD(trace_op, rank, SQL_INT),
    SQL_FIELD_AS(trace_op, kind, SQL_INT, "op_kind"),
    SQL_FIELD(trace_op, stage, SQL_INT),
    SQL_FIELD(trace_op, layer, SQL_INT),
    SQL_FIELD(trace_op, microbatch, SQL_INT),
    SQL_FIELD(trace_op, begin_ns, SQL_LONG),
    SQL_FIELD(trace_op, end_ns, SQL_LONG),
    SQL_FIELD(trace_op, busy_ns, SQL_LONG),
    SQL_FIELD(trace_op, replica, SQL_INT),
    SQL_FIELD(trace_op, chunk, SQL_INT),
    SQL_FIELD_AS(trace_op, name, SQL_INT, "name_index"),
};
_Static_assert(sizeof(trace_op_kind) == sizeof(int), "a kind is read and written as an int");
enum { FIELDS_MAX = 15, HEAD_BYTES = 9 }; // of a column
const sql_record block_load_record = SQL_RECORD(trace_load, load_fields);
static const sql_record of_ops = SQL_RECORD(trace_op, op_fields);

static int64_t value_of(const unsigned char *row, const sql_field *of)
{
    int64_t value = 0;
    int small = 0;
    if (of->type != SQL_INT) {
        memcpy(&value, row + of->offset, sizeof value);
        return value;
    }
    memcpy(&small, row + of->offset, sizeof small);
    return small;
}

static void set_value(unsigned char *row, const sql_field *of, int64_t value)
{
    const int small = (int)value;
    if (of->type == SQL_INT) {
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
static int measure(const sql_record *of, int place, const unsigned char *rows, int count,
                   int64_t *base)
{
    const sql_field *column = &of->fields[place];
    int64_t largest = value_of(rows, column);
    int width = place == 0;
    *base = largest;
    for (int row = 1; row < count; row++) {
        const int64_t value = value_of(rows + (size_t)row * of->bytes, column);
        if (value < *base) *base = value;
        if (value > largest) largest = value;
    }
    const uint64_t range = (uint64_t)largest - (uint64_t)*base;
    while (width < 8 && range >> (8 * width) != 0) {
        width++;
    }
    return width;
}

static unsigned char *pack(const sql_record *of, const void *items, int count, size_t *length)
{
    const unsigned char *rows = items;
    int64_t bases[FIELDS_MAX];
    int widths[FIELDS_MAX];
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
            const int64_t value = value_of(rows + (size_t)row * of->bytes, &of->fields[place]);
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
static status unpack_column(trace_store *store, const sql_record *of, int place,
                            const unsigned char **at, size_t *left, unsigned char *rows, int count,
                            error_message *err)
{
    const sql_field *column = &of->fields[place];
    const trace_range *range = columns_range(column->column);
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
        if (!is_in(range, value)) {
            char text[24];
            snprintf(text, sizeof text, "%" PRId64, value);
            return refuse_number(store, column->column, range, text, err);
        }
        set_value(rows + (size_t)row * of->bytes, column, value);
    }
    *left -= (size_t)width * (size_t)count;
    return STATUS_OK;
}

/// @param column of the row that holds the block, after that of its number of rows
static status unpack(trace_store *store, const sql_record *of, sqlite3_stmt *row, int column,
                     unsigned char **rows, int *count, error_message *err)
{
    const unsigned char *at = sqlite3_column_blob(row, column);
    size_t left = (size_t)sqlite3_column_bytes(row, column);
    const int row_count = sqlite3_column_int(row, column - 1);
    status result = STATUS_OK;
    if (at == NULL || row_count < 1 || (size_t)row_count > left) return corrupt(store, err);
    *rows = memory_array((size_t)row_count, of->bytes);
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
    return pack(&block_load_record, loads, count, length);
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
    TRY(unpack(store, &block_load_record, row, 2, &rows, &row_count, err));
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
