/// SQLite as the files of this folder use it; no other folder includes this.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "traces/store/store.h"
#include "traces/store/writer.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SQL_BATCH_ROWS = 4096, SQL_PATIENCE_MS = 60000, SQL_COLUMNS_MAX = 32 };
enum { SCHEMA_APPLICATION_ID = 0x44594E4D, SCHEMA_VERSION = 10 }; // the id reads "DYNM"

/// What columns may hold (columns.c).
typedef struct trace_range trace_range;

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
    const trace_range *columns[SQL_COLUMNS_MAX]; // NULL: nothing is known of it
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

/// Prepares a statement and binds its parameters, as sql_bind takes them. Release with
/// sqlite3_finalize.
status sql_query(trace_store *store, sqlite3_stmt **statement, error_message *err, const char *text,
                 const char *types, ...);

/// The integer in the first column of a query's first row.
///
/// @param value out: untouched where there is no row, or NULL in it
status sql_get(trace_store *store, int64_t *value, error_message *err, const char *text,
               const char *types, ...);

/// Fetches the next row and checks it (columns_check_row); resets the statement after the last and
/// on failure.
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

/// A row of a table with status and process_id that nobody will complete any more.
#define SQL_WRITER_IS_DEAD                                                                         \
    "status='running' AND process_id IN(SELECT process_id FROM process WHERE "                     \
    "process_is_dead(host, boot, pid_namespace, pid, start_ticks))"

/// How a struct holds what stands in a column.
typedef enum sql_type {
    SQL_INT,      ///< int
    SQL_LONG,     ///< int64_t
    SQL_OPTIONAL, ///< int64_t; not recorded (below 0): NULL
    SQL_ID,       ///< int64_t; none (0): NULL
    SQL_REAL,     ///< double; NULL is read as -1
    SQL_FLAG,     ///< bool
    SQL_TEXT,     ///< const char *; read, it has a ? in place of control characters, which could
                  ///< tell a terminal what to do
    SQL_HASH,     ///< uint64_t, read from its hexadecimal digits
    SQL_WORD      ///< an enum; a word that is none of its names is read as the first
} sql_type;

typedef struct sql_field {
    const char *column; // its name; where rows are only read, any expression
    size_t offset;
    sql_type type;
    const char *const *words; // [word_count] of a SQL_WORD
    int word_count;
} sql_field;

/// A struct and the columns that it has.
typedef struct sql_record {
    const sql_field *fields; // [field_count]
    int field_count;
    size_t bytes; // of the struct
} sql_record;

/// A member that is called as its column is, and one that is not.
#define SQL_FIELD(record, member, type) SQL_FIELD_AS(record, member, type, #member)
#define SQL_FIELD_AS(record, member, type, column)                                                 \
    {                                                                                              \
        column, offsetof(record, member), type, NULL, 0                                            \
    }

/// A struct and the array of its fields, as an initializer.
#define SQL_RECORD(record, fields)                                                                 \
    {                                                                                              \
        fields, sizeof fields / sizeof fields[0], sizeof(record)                                   \
    }

/// Reads all rows of a query into an array.
///
/// @param from  what stands after the columns: " FROM ..."
/// @param items T **: the array [*count] of the record's struct, carved from memory
/// @param types and what follows: the query's parameters, as sql_bind takes them
status sql_rows(trace_store *store, const sql_record *record, const char *from, arena *memory,
                void *items, int *count, error_message *err, const char *types, ...);

/// Prepares what sql_insert puts: rows of a table whose first column is the number of what they
/// belong to, and whose others are those of the record.
status sql_prepare_insert(trace_store *store, const char *table, const sql_record *record,
                          sqlite3_stmt **statement, error_message *err);
status sql_insert(trace_store *store, sqlite3_stmt *statement, int64_t id, const sql_record *record,
                  const void *item, error_message *err);

/// A text alone, as const char *.
extern const sql_record sql_text_record;

/// An input of a trace or a run, trace_input_file: path, bytes, hash.
enum { SQL_INPUT_FIELDS = 3 };
extern const sql_field sql_input_fields[SQL_INPUT_FIELDS];

/// Puts one. @param text with parameters for id, place and what the record has
status sql_put_input(trace_store *store, const char *text, int64_t id, int place,
                     const trace_input_file *file, error_message *err);

/// Writes the current time, UTC in ISO 8601.
void sql_now(char out[32]);

// What every column of a store may hold. A store is somebody else's file: whatever a row has
// beside that is refused when the row is read, whoever reads it.

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
