/// What every column of a store may hold. A store is somebody else's file: whatever a row has
/// beside that is refused when the row is read, whoever reads it.
#pragma once

#include "base/status.h"
#include "traces/store/sql.h"
#include "traces/store/writer.h"

/// Checks a row by the names of its columns. Columns without a known name are the reader's own.
///
/// @param statement has a row
/// @return STATUS_FORMAT naming file, column, value and limits
status columns_check_row(trace_store *store, sqlite3_stmt *statement, error_message *err);

/// What a column of this name may hold; NULL: no table has one.
const trace_range *columns_range(const char *column);

/// Rows of loads and ops as one value of the store: column by column, each number in as few bytes
/// as its column needs.
///
/// A block has, for every column in the order of columns.c: a byte with the width of its numbers in
/// bytes (the first column's at least 1, so that a block is as long as its rows are many), eight
/// bytes with the smallest of them, and per row what the row has more than that. Bytes of a number
/// from the lowest.

/// Columns of a block of loads: layer, microbatch, then the quantities that may not be recorded.
extern const sql_record block_load_record;
enum { BLOCK_QUANTITY = 2 }; // the first of those

/// The loads of one iteration. @param loads [count] by layer, then microbatch
/// @return [*length] bytes; release with free
unsigned char *block_of_loads(const trace_load *loads, int count, size_t *length);

/// Ops in the order in which they were put. @param ops [count]
unsigned char *block_of_ops(const trace_op *ops, int count, size_t *length);

/// Reads the blocks of a statement that selects iteration, row_count, loads.
///
/// @param loads [*count] out, by layer, then microbatch; release with free
/// @return STATUS_FORMAT naming file, column, value and limits: what no writer can have put
status block_read_loads(trace_store *store, sqlite3_stmt *row, trace_load **loads, int *count,
                        error_message *err);

/// The same of one that selects first_iteration, last_iteration, row_count, ops.
status block_read_ops(trace_store *store, sqlite3_stmt *row, trace_op **ops, int *count,
                      error_message *err);
