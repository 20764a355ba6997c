/// The record of runs: what was simulated or executed, with which plans, and what came out.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "traces/store/store.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum trace_run_kind {
    TRACE_RUN_SIM,
    TRACE_RUN_EXEC,
    TRACE_RUN_IMPORT,
    TRACE_RUN_KIND_COUNT
} trace_run_kind;

/// "sim", "exec", "import".
extern const char *const trace_run_kind_names[TRACE_RUN_KIND_COUNT];

/// A run as a whole. Strings are borrowed for the call by trace_run_begin, and from the arena where
/// the store answers with one.
typedef struct trace_run_info {
    int64_t run_id;      // out
    trace_status status; // out
    const char *name;    // for people; need not be unique
    trace_run_kind kind;
    const char *command_line;
    const char *config_json; // the study or plan as it was used; NULL: none
    uint64_t seed;
    const char *tool_version; // or NULL
    const char *identity;     // in: by which a run of many items (below) is found again; or NULL
    const char *host;         // out
    const char *started_at;   // out: UTC, ISO 8601
    const char *finished_at;  // out: NULL if it did not end by itself
    const char *message;      // out: why it failed, or NULL
    int64_t series_count;     // out, as are the next
    int64_t iteration_count;
    int64_t plan_count;
    int64_t result_count;
} trace_run_info;

/// One iteration of one series: of a run that compares balancers, every balancer is a series.
typedef struct trace_run_iteration {
    int iteration;
    int64_t plan_id; // in force during it; 0: none
    int64_t iteration_ns;
    int64_t makespan_ns;
    int64_t span_ns;
    int64_t busy_ns;
    double bubble_ratio;
    double imbalance_ratio;
    bool changed;    // the model had changed before it
    bool rebalanced; // the plan changed after it
    int moved_layer_count;
    int64_t moved_bytes;
    int64_t migration_ns;
} trace_run_iteration;

/// What was decided after an iteration, and why.
typedef struct trace_run_decision {
    int iteration;
    const char *action; // "keep", "rebalance" or "repack"
    const char *reason; // a word of balance/control/controller.h
    int64_t decision_ns;
    int moved_layer_count;
    int64_t moved_bytes;
    int64_t migration_ns; // that the iteration lasted longer for it
} trace_run_decision;

/// How long one rank worked in one iteration.
typedef struct trace_run_work {
    int iteration;
    int place; // in the pipeline
    int rank;  // of the machine
    int64_t work_ns;
} trace_run_work;

/// What the ops of one stage and kind took in one iteration, of one replica.
typedef struct trace_run_op_time {
    int iteration;
    int stage;
    bal_op_kind kind;
    int op_count;
    int64_t median_ns;
    int awaited_count; // ops that began when a message came from another rank, not when the op
                       // before them ended: of those it is known how long the message travelled
    int64_t travel_ns; // median over them, from the end of the op that sent to the begin of the one
                       // that received; -1: there is none
} trace_run_op_time;

typedef struct trace_run_plan {
    int64_t plan_id;
    const char *series;
    int from_iteration;
    const char *plan_json;
} trace_run_plan;

typedef struct trace_run_result {
    const char *label;
    const char *result_json;
} trace_run_result;

/// What is recorded of a run, and the struct of a row of it.
typedef enum trace_run_table {
    TRACE_RUN_INPUTS,     ///< trace_input_file
    TRACE_RUN_SERIES,     ///< const char *, in the order in which they first came
    TRACE_RUN_PLANS,      ///< trace_run_plan, in the order in which they were put, as the next
    TRACE_RUN_RESULTS,    ///< trace_run_result
    TRACE_RUN_ITERATIONS, ///< trace_run_iteration; from here on of a series, by iteration
    TRACE_RUN_DECISIONS,  ///< trace_run_decision
    TRACE_RUN_WORK,       ///< trace_run_work, then by place
    TRACE_RUN_OP_TIMES,   ///< trace_run_op_time, then by stage and kind
    TRACE_RUN_TABLE_COUNT
} trace_run_table;

/// A run that is being recorded.
typedef struct trace_run trace_run;

/// Begins a run. It is committed as running at once. Of JSON here and below the store keeps what is
/// JSON only, and of a series each iteration once: anything else is the program's own fault.
///
/// @param files [file_count] inputs
/// @param run   owned by the caller; ends with trace_run_finish, before the store is closed
/// @return STATUS_IO
status trace_run_begin(trace_store *store, const trace_run_info *info,
                       const trace_input_file *files, int file_count, trace_run **run,
                       error_message *err);

/// Goes on with a run that has ended, or whose writer is gone, as this process's. It is committed
/// as running at once.
///
/// @return STATUS_INVALID if there is no such run, or a process that lives is writing it
status trace_run_resume(trace_store *store, int64_t run_id, trace_run **run, error_message *err);

int64_t trace_run_id(const trace_run *run);

/// @param plan_id out, may be NULL: for trace_run_iteration
status trace_run_put_plan(trace_run *run, const char *series, int from_iteration,
                          const char *plan_json, int64_t *plan_id, error_message *err);

/// Puts a row of a table that is of a series, once per iteration (and place, or stage and kind).
/// The op times of a stage and kind are put where they differ from those put last: they hold from
/// their iteration on.
///
/// @param row of the struct that stands beside the table's name
status trace_run_put(trace_run *run, trace_run_table table, const char *series, const void *row,
                     error_message *err);

/// Keeps a result under a label, which must be new.
status trace_run_put_result(trace_run *run, const char *label, const char *result_json,
                            error_message *err);

/// Keeps the result of an item of a run of many (below), any bytes; one that is there already is
/// replaced. Rows are committed in batches (traces/store/store.h).
///
/// @param pass which of several rounds over items, from 0
status trace_run_put_item(trace_run *run, int pass, int64_t item, const char *bytes, size_t length,
                          error_message *err);

/// Commits the run as complete or, with the outcome of what ran, as failed with its message. The
/// run is gone afterwards, also on failure. Nothing that was put is taken back.
///
/// @param outcome NULL or code STATUS_OK: complete
status trace_run_finish(trace_run *run, const error_message *outcome, error_message *err);

/// All runs, whatever their status, oldest first. @param runs [*count] carved from memory
status trace_run_list(trace_store *store, arena *memory, trace_run_info **runs, int *count,
                      error_message *err);

/// A run by its number, or the newest of its name, whatever its status.
///
/// @param name NULL: the newest complete run
/// @return STATUS_INVALID if there is none
status trace_run_find(trace_store *store, const char *name, arena *memory, trace_run_info *info,
                      error_message *err);

/// A run by its number. @return STATUS_INVALID if there is none
status trace_run_get(trace_store *store, int64_t run_id, arena *memory, trace_run_info *info,
                     error_message *err);

/// All rows that a run, or one of its series, has in a table.
///
/// @param series NULL where the table is of the run
/// @param rows   pointer to an array of the struct that stands beside the table's name: out
///               [*count], carved from memory
status trace_run_rows(trace_store *store, int64_t run_id, trace_run_table table, const char *series,
                      arena *memory, void *rows, int *count, error_message *err);

/// Runs of many items, such as the points of a what-if study: results are kept as they come, so
/// that an interrupted run goes on where it was, and read back in order. Such a run has an
/// identity, which its command makes of all that its results depend on: the same command finds the
/// run again by it.

/// The newest run of this identity.
///
/// @param run_id out: 0 if there is none
/// @param info   out, if there is one; strings are carved from memory. `running` means that its
///               writer lives, or cannot be seen from here
status trace_items_find(trace_store *store, const char *identity, arena *memory, int64_t *run_id,
                        trace_run_info *info, error_message *err);

/// A run by its identity.
typedef struct trace_items_name {
    int64_t run_id;
    const char *identity;
} trace_items_name;

/// The newest run of each identity that fits a pattern (SQLite's GLOB), oldest first.
///
/// @param names [*count] out, carved from memory
status trace_items_list(trace_store *store, const char *pattern, arena *memory,
                        trace_items_name **names, int *count, error_message *err);

/// Gives what is kept of a pass to take, in ascending order of the items.
///
/// @param take bytes are borrowed for the call and end with a zero after length; what it returns
///             ends the reading and is returned
status trace_items_read(trace_store *store, int64_t run_id, int pass, void *context,
                        status (*take)(void *context, int64_t item, const char *bytes,
                                       size_t length, error_message *err),
                        error_message *err);

/// Keeps what another store has of a run, all passes of it.
///
/// @param count out: how many items; may be NULL
status trace_items_copy(trace_store *from, int64_t run_id, trace_run *to, int64_t *count,
                        error_message *err);
