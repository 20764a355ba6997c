#include "traces/store/old_rows.h"

#include "base/arena.h"
#include "traces/store/blocks.h"

#include <stdlib.h>
#include <string.h>

enum { OPS_MAX = 1 << 15 };

static trace_op_kind kind_of(sqlite3_stmt *row, int column)
{
    const char *word = (const char *)sqlite3_column_text(row, column);
    for (int kind = 0; kind < TRACE_OP_COUNT && word != NULL; kind++) {
        if (strcmp(word, trace_op_kind_name((trace_op_kind)kind)) == 0) return (trace_op_kind)kind;
    }
    return TRACE_OP_FORWARD;
}

/// Rows on their way into a block.
typedef struct gathering {
    trace_store *store;
    sqlite3_stmt *insert;
    int64_t trace_id;
    int64_t block;
    int count;
    int capacity;
    trace_load *loads; // [capacity]
    trace_op *ops;     // [OPS_MAX]
} gathering;

/// Executes the bound insert. Not as a batch: all is one transaction.
static status put_block(gathering *held, unsigned char *block, status bound, error_message *err)
{
    bool has_row = false;
    if (bound == STATUS_OK) bound = sql_step(held->store, held->insert, &has_row, err);
    free(block);
    held->count = 0;
    return bound;
}

static status put_loads(gathering *held, error_message *err)
{
    size_t length = 0;
    if (held->count == 0) return STATUS_OK;
    unsigned char *block = block_of_loads(held->loads, held->count, &length);
    return put_block(held, block,
                     sql_bind(held->store, held->insert, err, "iiiv", held->trace_id,
                              (int64_t)held->loads[0].iteration, (int64_t)held->count, block,
                              length),
                     err);
}

static status put_ops(gathering *held, error_message *err)
{
    size_t length = 0;
    if (held->count == 0) return STATUS_OK;
    unsigned char *block = block_of_ops(held->ops, held->count, &length);
    return put_block(held, block,
                     sql_bind(held->store, held->insert, err, "iiiiiv", held->trace_id,
                              held->block++, (int64_t)held->ops[0].iteration,
                              (int64_t)held->ops[held->count - 1].iteration, (int64_t)held->count,
                              block, length),
                     err);
}

/// @param rows by trace, iteration, layer, microbatch
static status gather_loads(gathering *held, sqlite3_stmt *rows, error_message *err)
{
    for (;;) {
        bool has_row = false;
        TRY(sql_step(held->store, rows, &has_row, err));
        if (!has_row) return put_loads(held, err);
        const int64_t trace_id = sqlite3_column_int64(rows, 0);
        trace_load load = {.iteration = sqlite3_column_int(rows, 1)};
        block_row_of_load(rows, 2, &load);
        if (held->count > 0 &&
            (trace_id != held->trace_id || load.iteration != held->loads[0].iteration)) {
            TRY(put_loads(held, err));
        }
        if (held->count == held->capacity) {
            held->capacity = held->capacity == 0 ? 256 : 2 * held->capacity;
            held->loads = memory_resize(held->loads, (size_t)held->capacity, sizeof *held->loads);
        }
        held->trace_id = trace_id;
        held->loads[held->count++] = load;
    }
}

/// @param rows by trace, iteration, and as they were put
static status gather_ops(gathering *held, sqlite3_stmt *rows, error_message *err)
{
    for (;;) {
        bool has_row = false;
        TRY(sql_step(held->store, rows, &has_row, err));
        if (!has_row) return put_ops(held, err);
        const int64_t trace_id = sqlite3_column_int64(rows, 0);
        const bool is_other = trace_id != held->trace_id;
        if (is_other || held->count == OPS_MAX) TRY(put_ops(held, err));
        if (is_other) held->block = 0;
        held->trace_id = trace_id;
        block_row_of_op(rows, 1, &held->ops[held->count]);
        held->ops[held->count++].kind = kind_of(rows, 13);
    }
}

static status convert(trace_store *store, const char *select, const char *insert,
                      status (*gather)(gathering *held, sqlite3_stmt *rows, error_message *err),
                      error_message *err)
{
    sqlite3_stmt *rows = NULL;
    gathering held = {.store = store, .ops = memory_array(OPS_MAX, sizeof(trace_op))};
    status result = sql_prepare(store, insert, &held.insert, err);
    if (result == STATUS_OK) result = sql_prepare(store, select, &rows, err);
    if (result == STATUS_OK) result = gather(&held, rows, err);
    sqlite3_finalize(rows);
    sqlite3_finalize(held.insert);
    free(held.loads);
    free(held.ops);
    return result;
}

status old_rows_convert(trace_store *store, error_message *err)
{
    TRY(convert(store,
                "SELECT trace_id, iteration, layer, microbatch, forward_ns, backward_ns,"
                " backward_input_ns, backward_weight_ns, recompute_ns, communication_ns, span_ns,"
                " activation_bytes, forward_charge_ns, backward_charge_ns,"
                " backward_input_charge_ns, backward_weight_charge_ns, recompute_charge_ns"
                " FROM load ORDER BY trace_id, iteration, layer, microbatch",
                "INSERT INTO loads VALUES(?,?,?,?)", gather_loads, err));
    return convert(
        store,
        "SELECT trace_id, iteration, rank, 0 AS op_kind, stage, layer, microbatch, begin_ns,"
        " end_ns, busy_ns, replica, chunk, name AS name_index, kind FROM op"
        " ORDER BY trace_id, iteration, place",
        "INSERT INTO ops VALUES(?,?,?,?,?,?)", gather_ops, err);
}
