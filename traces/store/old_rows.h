/// Stores of versions up to 7 had a row per load and per op.
#pragma once

#include "base/status.h"
#include "traces/store/store.h"

/// Puts the rows of the tables load and op as blocks into loads and ops.
///
/// @return STATUS_FORMAT for a row that no writer can have put
status old_rows_convert(trace_store *store, error_message *err);
