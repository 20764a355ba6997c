/// The tables of a store.
#pragma once

#include "base/status.h"
#include "traces/store/sql.h"

enum { SCHEMA_APPLICATION_ID = 0x44594E4D, SCHEMA_VERSION = 10 }; // the id reads "DYNM"

/// Checks that the file is a store of this version, with nothing but its tables. An empty file
/// becomes a store under TRACE_WRITE.
///
/// @return as trace_store_open
status schema_open(trace_store *store, error_message *err);

/// True if the store has no table yet.
status schema_is_empty(trace_store *store, bool *is_empty, error_message *err);
