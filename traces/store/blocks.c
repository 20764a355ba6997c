#include "traces/store/blocks.h"

#include "base/arena.h"
#include "traces/store/columns.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/// Where a struct holds what a column is of. Names are those of columns.c.
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

/// @param column of the row that holds the block, behind that of its number of rows
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
