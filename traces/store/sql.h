/// SQLite as the files of this folder use it; no other folder includes this.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/store.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

enum { SQL_BATCH_ROWS = 4096, SQL_PATIENCE_MS = 60000, SQL_COLUMNS_MAX = 32 };
enum { SCHEMA_APPLICATION_ID = 0x44594E4D, SCHEMA_VERSION = 10 }; // the id reads "DYNM"

typedef struct trace_column trace_column;

struct trace_store {
    sqlite3 *db;
    char *path;
    trace_mode mode;
    bool is_in_memory;
    bool created;   // by this open
    bool in_batch;  // a write transaction is open
    int batch_rows; // written in it
    int patience_ms;
    int64_t batch_begin_ns;
    int64_t last_write_ns;
    int64_t leftover_trace_id; // aborted, but could not be deleted; 0: none
    sqlite3_stmt *checked;     // whose columns are below
    int column_count;
    const trace_column *columns[SQL_COLUMNS_MAX]; // NULL: nothing is known of it
    int64_t process_id; // row of this process in the table process; 0: not written yet
};

/// The failure that the last call on store->db returned, in words, after the path.
status sql_error(trace_store *store, int code, error_message *err);

/// Runs statements without results.
status sql_run(trace_store *store, const char *text, error_message *err);

/// Compiles a statement that will be used many times. Release with sqlite3_finalize.
status sql_prepare(trace_store *store, const char *text, sqlite3_stmt **statement,
                   error_message *err);

/// Binds all parameters from the first. types has one letter each: i int64_t; n int64_t, stored as
/// NULL if it is negative; t const char *, stored as NULL if it is one; d double; b int (bool); v
/// bytes: const void * and size_t. Texts and bytes are borrowed until the statement is reset.
status sql_bind(trace_store *store, sqlite3_stmt *statement, error_message *err, const char *types,
                ...);

/// Prepares a statement with one parameter, the number of a trace or a run, and binds it.
status sql_query(trace_store *store, const char *text, int64_t id, sqlite3_stmt **statement,
                 error_message *err);

/// Fetches the next row and checks it (columns.h); resets the statement after the last and on
/// failure.
status sql_step(trace_store *store, sqlite3_stmt *statement, bool *has_row, error_message *err);

/// Begins a batch unless one is open: waits for other writers.
status sql_batch_begin(trace_store *store, error_message *err);
status sql_batch_commit(trace_store *store, error_message *err);

/// Executes a bound statement inside a batch.
status sql_batch_put(trace_store *store, sqlite3_stmt *statement, error_message *err);

/// True if the batch, which has just got a row, shall be committed: others wait for it, or it has
/// row_max rows.
bool sql_is_due(trace_store *store, int row_max);

/// The same, and commits the batch when it is due.
status sql_write(trace_store *store, sqlite3_stmt *statement, error_message *err);

/// Prepares, binds, writes and finalizes.
status sql_write_once(trace_store *store, error_message *err, const char *text, const char *types,
                      ...);

/// The row of this process in the table process, written at the first call: enough to tell later
/// whether it still runs.
status sql_process_id(trace_store *store, int64_t *process_id, error_message *err);

/// Defines process_is_dead(host, boot, pid_namespace, pid, start_ticks): true only if the process
/// is known to be gone. See trace_store_open for what cannot be known.
status sql_define_process_is_dead(trace_store *store, error_message *err);

/// Checks that the file is a store of this version, with nothing but its tables. An empty file
/// becomes a store under TRACE_WRITE.
///
/// @return as trace_store_open
status schema_open(trace_store *store, error_message *err);

/// True if the store has no table yet.
status schema_is_empty(trace_store *store, bool *is_empty, error_message *err);

/// "CASE ... AS status" of a table with status and process_id: running becomes interrupted where
/// the writer is dead.
#define SQL_STATUS                                                                                 \
    "CASE WHEN status='running' AND process_is_dead(host, boot, pid_namespace, pid, start_ticks)"  \
    " THEN 'interrupted' ELSE status END AS status"

/// The status that the word in a column names.
trace_status sql_status(sqlite3_stmt *statement, int column);

/// A text column copied into memory, a `?` in place of control characters that could tell a
/// terminal what to do; NULL where it is NULL.
const char *sql_text(sqlite3_stmt *statement, int column, arena *memory);

/// Doubles the capacity of an array in memory when it is full.
///
/// @param items [*count] the array, possibly NULL; the new one where it moved
void sql_grow(arena *memory, void **items, int count, int *capacity, size_t item_bytes);

/// A query whose rows become the elements of an array.
typedef struct sql_select {
    const char *text;
    void (*read)(sqlite3_stmt *row, arena *memory, void *item);
    size_t item_bytes;
} sql_select;

/// Reads all rows of a query into an array.
///
/// @param items T **: the array [*count] of T, carved from memory
/// @param types and what follows: the query's parameters, as sql_bind takes them
status sql_rows(trace_store *store, const sql_select *select, arena *memory, void *items,
                int *count, error_message *err, const char *types, ...);

/// Reads a row of path, bytes, hash into a trace_input_file.
void sql_read_input_file(sqlite3_stmt *row, arena *memory, void *item);

/// Writes the current time, UTC in ISO 8601.
void sql_now(char out[32]);

/// A column as int64_t, TRACE_NOT_RECORDED (-1) where it is NULL.
int64_t sql_int64(sqlite3_stmt *statement, int column);
