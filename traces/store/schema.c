/// The tables of a store, and whether a file holds those of its version.
#include "traces/store/sql.h"

#include <stdio.h>
#include <string.h>

// Status words and kinds are those of the enums in the headers.
static const char *const tables[] = {
    // Who writes.
    "CREATE TABLE process("
    " process_id INTEGER PRIMARY KEY, host TEXT NOT NULL, boot TEXT NOT NULL,"
    " pid_namespace TEXT NOT NULL, pid INTEGER NOT NULL,"
    " start_ticks INTEGER NOT NULL) STRICT;"
    // Traces. A row of loads has the loads of an iteration, a row of ops many ops, as one value
    // (columns.c).
    "CREATE TABLE trace("
    " trace_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,"
    " status TEXT NOT NULL CHECK(status IN('running','complete','interrupted')),"
    " source TEXT NOT NULL CHECK(source IN('csv','kineto','model','exec')), device TEXT,"
    " layer_count INTEGER NOT NULL, microbatch_count INTEGER NOT NULL,"
    " tokens_per_microbatch INTEGER, embedding INTEGER NOT NULL CHECK(embedding IN(0,1)),"
    " head INTEGER NOT NULL CHECK(head IN(0,1)),"
    " backward_split REAL CHECK(backward_split BETWEEN 0 AND 1),"
    " has_split INTEGER NOT NULL CHECK(has_split IN(0,1)), times TEXT NOT NULL,"
    " split TEXT NOT NULL, communication TEXT NOT NULL, activations TEXT NOT NULL,"
    " parameters TEXT NOT NULL, messages TEXT NOT NULL, recorded_by TEXT,"
    " tool_version TEXT, imported_at TEXT NOT NULL,"
    " process_id INTEGER NOT NULL REFERENCES process) STRICT;"
    "CREATE TABLE trace_input("
    " trace_id INTEGER NOT NULL REFERENCES trace ON DELETE CASCADE, place INTEGER NOT NULL,"
    " path TEXT NOT NULL, bytes INTEGER NOT NULL, hash TEXT NOT NULL,"
    " PRIMARY KEY(trace_id, place)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE trace_note("
    " trace_id INTEGER NOT NULL REFERENCES trace ON DELETE CASCADE, key TEXT NOT NULL,"
    " text TEXT NOT NULL, PRIMARY KEY(trace_id, key)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE layer("
    " trace_id INTEGER NOT NULL REFERENCES trace ON DELETE CASCADE, layer INTEGER NOT NULL,"
    " kind TEXT NOT NULL CHECK(kind IN('embedding','layer','head')), parameters INTEGER,"
    " state_bytes INTEGER, message_bytes INTEGER,"
    " PRIMARY KEY(trace_id, layer)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE loads("
    " trace_id INTEGER NOT NULL REFERENCES trace ON DELETE CASCADE,"
    " iteration INTEGER NOT NULL, row_count INTEGER NOT NULL, loads BLOB NOT NULL,"
    " UNIQUE(trace_id, iteration)) STRICT;"
    "CREATE TABLE ops("
    " trace_id INTEGER NOT NULL REFERENCES trace ON DELETE CASCADE, block INTEGER NOT NULL,"
    " first_iteration INTEGER NOT NULL, last_iteration INTEGER NOT NULL,"
    " row_count INTEGER NOT NULL, ops BLOB NOT NULL, UNIQUE(trace_id, block)) STRICT;"
    "CREATE TABLE op_name("
    " trace_id INTEGER NOT NULL REFERENCES trace ON DELETE CASCADE, name INTEGER NOT NULL,"
    " text TEXT NOT NULL, PRIMARY KEY(trace_id, name)) STRICT, WITHOUT ROWID;",
    // Runs: what they decided and why, and how much each rank worked. The table ranks stays empty.
    "CREATE TABLE run("
    " run_id INTEGER PRIMARY KEY, name TEXT NOT NULL,"
    " kind TEXT NOT NULL CHECK(kind IN('sim','exec','import')),"
    " status TEXT NOT NULL CHECK(status IN('running','complete','failed','interrupted')),"
    " command_line TEXT NOT NULL,"
    " config_json TEXT CHECK(config_json IS NULL OR json_valid(config_json)),"
    " seed INTEGER NOT NULL, tool_version TEXT, started_at TEXT NOT NULL, finished_at TEXT,"
    " message TEXT, process_id INTEGER NOT NULL REFERENCES process) STRICT;"
    "CREATE TABLE run_input("
    " run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, place INTEGER NOT NULL,"
    " path TEXT NOT NULL, bytes INTEGER NOT NULL, hash TEXT NOT NULL,"
    " PRIMARY KEY(run_id, place)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE plan("
    " plan_id INTEGER PRIMARY KEY,"
    " run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, series TEXT NOT NULL,"
    " from_iteration INTEGER NOT NULL,"
    " plan_json TEXT NOT NULL CHECK(json_valid(plan_json))) STRICT;"
    "CREATE INDEX plan_of_run ON plan(run_id);"
    "CREATE TABLE series("
    " series_id INTEGER PRIMARY KEY,"
    " run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, label TEXT NOT NULL,"
    " UNIQUE(run_id, label)) STRICT;"
    "CREATE TABLE iteration("
    " series_id INTEGER NOT NULL REFERENCES series ON DELETE CASCADE,"
    " iteration INTEGER NOT NULL, plan_id INTEGER REFERENCES plan,"
    " iteration_ns INTEGER NOT NULL, makespan_ns INTEGER NOT NULL,"
    " span_ns INTEGER NOT NULL, busy_ns INTEGER NOT NULL, bubble_ratio REAL NOT NULL,"
    " imbalance_ratio REAL NOT NULL, rebalanced INTEGER NOT NULL,"
    " moved_layer_count INTEGER NOT NULL, moved_bytes INTEGER NOT NULL,"
    " migration_ns INTEGER NOT NULL, changed INTEGER,"
    " PRIMARY KEY(series_id, iteration)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE result("
    " result_id INTEGER PRIMARY KEY,"
    " run_id INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, label TEXT NOT NULL,"
    " result_json TEXT NOT NULL CHECK(json_valid(result_json)),"
    " UNIQUE(run_id, label)) STRICT;"
    "CREATE TABLE decision("
    " series_id INTEGER NOT NULL REFERENCES series ON DELETE CASCADE,"
    " iteration INTEGER NOT NULL, action TEXT NOT NULL, reason TEXT NOT NULL,"
    " decision_ns INTEGER NOT NULL, moved_layer_count INTEGER NOT NULL,"
    " moved_bytes INTEGER NOT NULL, migration_ns INTEGER NOT NULL,"
    " PRIMARY KEY(series_id, iteration)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE ranks("
    " series_id INTEGER NOT NULL REFERENCES series ON DELETE CASCADE,"
    " from_iteration INTEGER NOT NULL, rank_count INTEGER NOT NULL,"
    " replica_count INTEGER NOT NULL, microbatch_count INTEGER NOT NULL,"
    " PRIMARY KEY(series_id, from_iteration)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE rank_work("
    " series_id INTEGER NOT NULL REFERENCES series ON DELETE CASCADE,"
    " iteration INTEGER NOT NULL, place INTEGER NOT NULL, rank INTEGER NOT NULL,"
    " work_ns INTEGER NOT NULL,"
    " PRIMARY KEY(series_id, iteration, place)) STRICT, WITHOUT ROWID;"
    // What the ops of a stage took, by kind. A row holds from its iteration until the next one of
    // the same stage and kind.
    "CREATE TABLE op_time("
    " series_id INTEGER NOT NULL REFERENCES series ON DELETE CASCADE,"
    " iteration INTEGER NOT NULL, stage INTEGER NOT NULL,"
    " kind TEXT NOT NULL CHECK(kind IN('F','B','W','BW')), op_count INTEGER NOT NULL,"
    " median_ns INTEGER NOT NULL, awaited_count INTEGER NOT NULL, travel_ns INTEGER,"
    " PRIMARY KEY(series_id, iteration, stage, kind)) STRICT, WITHOUT ROWID;"
    // Runs of many items: by what they are found again, and what came of each item.
    "CREATE TABLE item_run("
    " run_id INTEGER PRIMARY KEY REFERENCES run ON DELETE CASCADE,"
    " identity TEXT NOT NULL) STRICT;"
    "CREATE INDEX item_run_by_identity ON item_run(identity);"
    "CREATE TABLE item("
    " run_id INTEGER NOT NULL REFERENCES item_run ON DELETE CASCADE, pass INTEGER NOT NULL,"
    " item INTEGER NOT NULL, result BLOB NOT NULL,"
    " PRIMARY KEY(run_id, pass, item)) STRICT, WITHOUT ROWID;",
};

enum { PART_COUNT = sizeof tables / sizeof tables[0] };

/// What a file says of itself.
typedef struct file_signs {
    int64_t table_count;
    int64_t application_id;
    int64_t user_version;
} file_signs;

/// In one statement: another process may be making the store.
static status read_signs(trace_store *store, file_signs *signs, error_message *err)
{
    sqlite3_stmt *statement = NULL;
    bool has_row = false;
    TRY(sql_prepare(store,
                    "SELECT (SELECT count(*) FROM sqlite_schema),"
                    " (SELECT application_id FROM pragma_application_id),"
                    " (SELECT user_version FROM pragma_user_version)",
                    &statement, err));
    const status result = sql_step(store, statement, &has_row, err);
    *signs = (file_signs){0};
    if (has_row) {
        *signs = (file_signs){.table_count = sqlite3_column_int64(statement, 0),
                              .application_id = sqlite3_column_int64(statement, 1),
                              .user_version = sqlite3_column_int64(statement, 2)};
    }
    sqlite3_finalize(statement);
    return result;
}

status schema_is_empty(trace_store *store, bool *is_empty, error_message *err)
{
    file_signs signs;
    TRY(read_signs(store, &signs, err));
    *is_empty = signs.table_count == 0;
    return STATUS_OK;
}

/// @param is_there out: a store of this version; else an empty file that may become one
static status find_version(trace_store *store, bool *is_there, error_message *err)
{
    file_signs signs;
    TRY(read_signs(store, &signs, err));
    if (signs.table_count == 0 && signs.application_id == 0 && signs.user_version == 0) {
        *is_there = false;
        if (store->mode == TRACE_WRITE) return STATUS_OK;
        return error_set(err, STATUS_FORMAT, "%s: empty, not a store of dynmo", store->path);
    }
    if (signs.application_id != SCHEMA_APPLICATION_ID || signs.user_version < 1) {
        return error_set(err, STATUS_FORMAT,
                         "%s: a SQLite file, but not a store of dynmo (application_id 0x%08x)",
                         store->path, (unsigned)signs.application_id);
    }
    if (signs.user_version != SCHEMA_VERSION) {
        const bool is_newer = signs.user_version > SCHEMA_VERSION;
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: store version %d was made by %s dynmo; this one reads version %d%s",
                         store->path, (int)signs.user_version, is_newer ? "a newer" : "an older",
                         SCHEMA_VERSION, is_newer ? "" : ": import or record again");
    }
    *is_there = true;
    return STATUS_OK;
}

/// A schema without blanks, which versions of SQLite set differently, and without the tables of
/// `PRAGMA optimize`, as SQLite itself makes them.
static const char schema_text[] =
    "SELECT row FROM (SELECT type || name || tbl_name ||"
    " replace(replace(coalesce(sql, ''), ' ', ''), char(10), '') AS row FROM sqlite_schema)"
    " WHERE row NOT IN('tablesqlite_stat1sqlite_stat1CREATETABLEsqlite_stat1(tbl,idx,stat)',"
    " 'tablesqlite_stat4sqlite_stat4CREATETABLEsqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)')"
    " ORDER BY row";

/// The schema of an empty store, made in memory.
static status prepare_pattern(sqlite3 **pattern, sqlite3_stmt **wanted)
{
    int code = sqlite3_open_v2(":memory:", pattern, SQLITE_OPEN_READWRITE, NULL);
    for (size_t part = 0; part < PART_COUNT && code == SQLITE_OK; part++) {
        code = sqlite3_exec(*pattern, tables[part], NULL, NULL, NULL);
    }
    if (code == SQLITE_OK) code = sqlite3_prepare_v2(*pattern, schema_text, -1, wanted, NULL);
    return code == SQLITE_OK ? STATUS_OK : STATUS_NO_MEMORY;
}

static bool is_same_text(sqlite3_stmt *one, sqlite3_stmt *other)
{
    const char *text = (const char *)sqlite3_column_text(one, 0);
    const char *wanted = (const char *)sqlite3_column_text(other, 0);
    return text != NULL && wanted != NULL && strcmp(text, wanted) == 0;
}

static status compare_rows(trace_store *store, sqlite3_stmt *there, sqlite3_stmt *wanted,
                           error_message *err)
{
    for (bool has_row = true; has_row;) {
        TRY(sql_step(store, there, &has_row, err));
        const int code = sqlite3_step(wanted);
        const bool is_same =
            has_row ? code == SQLITE_ROW && is_same_text(there, wanted) : code == SQLITE_DONE;
        if (!is_same) {
            return error_set(err, STATUS_FORMAT, "%s: its schema is not that of store version %d",
                             store->path, SCHEMA_VERSION);
        }
    }
    return STATUS_OK;
}

/// Views, triggers and other tables would have this program do what their author wants.
static status check_schema(trace_store *store, error_message *err)
{
    sqlite3 *pattern = NULL;
    sqlite3_stmt *wanted = NULL;
    sqlite3_stmt *there = NULL;
    status result = prepare_pattern(&pattern, &wanted);
    if (result != STATUS_OK) error_set(err, result, "%s: SQLite is out of memory", store->path);
    if (result == STATUS_OK) result = sql_prepare(store, schema_text, &there, err);
    if (result == STATUS_OK) result = compare_rows(store, there, wanted, err);
    sqlite3_finalize(there);
    sqlite3_finalize(wanted);
    sqlite3_close(pattern);
    return result;
}

/// Inside a transaction: another process may have made it since it was found empty.
static status make_locked(trace_store *store, error_message *err)
{
    bool is_there = false;
    TRY(find_version(store, &is_there, err));
    if (is_there) return check_schema(store, err);
    char pragmas[96];
    for (size_t part = 0; part < PART_COUNT; part++) {
        TRY(sql_run(store, tables[part], err));
    }
    snprintf(pragmas, sizeof pragmas, "PRAGMA application_id=%d;PRAGMA user_version=%d;",
             SCHEMA_APPLICATION_ID, SCHEMA_VERSION);
    return sql_run(store, pragmas, err);
}

status schema_open(trace_store *store, error_message *err)
{
    bool is_there = false;
    TRY(find_version(store, &is_there, err));
    if (is_there) return check_schema(store, err);
    TRY(sql_run(store, "BEGIN IMMEDIATE", err));
    const status result = make_locked(store, err);
    if (result == STATUS_OK) return sql_run(store, "COMMIT", err);
    sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    return result;
}
