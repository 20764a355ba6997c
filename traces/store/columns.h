/// What every column of a store may hold. A store is somebody else's file: whatever a row has
/// beside that is refused when the row is read, whoever reads it.
#pragma once

#include "base/status.h"
#include "traces/store/sql.h"

/// Checks a row by the names of its columns. Columns without a known name are the reader's own.
///
/// @param statement has a row
/// @return STATUS_FORMAT naming file, column, value and limits
status columns_check_row(trace_store *store, sqlite3_stmt *statement, error_message *err);

/// What a column of this name may hold; NULL: no table has one.
const trace_column *columns_find(const char *name);

/// Whether a number may stand in a column; TRACE_NOT_RECORDED stands for NULL.
bool columns_hold(const trace_column *column, int64_t value);

/// STATUS_FORMAT naming file, column, value and limits.
status columns_refuse(const trace_store *store, const trace_column *column, int64_t value,
                      error_message *err);
