/// A run as a check sees it: what it took, iteration by iteration, and under which plans, read from
/// a store, whoever played it.
#pragma once

#include "analysis/report/timeline_file.h"
#include "balance/plan.h"
#include "base/arena.h"
#include "base/status.h"
#include "traces/store/runs.h"
#include "traces/store/store.h"

#include <stdbool.h>
#include <stdint.h>

/// Everything is from the arena. Samples are the iterations of which the store has more than the
/// sums: all of them, or of long runs every n-th.
typedef struct ana_observed {
    const char *source; // for people: "runs.db, run 2 (gpt, executed), row 'even'"
    trace_run_info info;
    bool is_predicted; // simulated: nothing in it is noise
    const char *label; // of the row

    int iteration_count;
    trace_run_iteration *iterations; // [iteration_count] ascending
    const bal_plan *plans;           // [plan_count] as they came into force
    int plan_count;
    int *plan_of;                        // [iteration_count] index into plans
    const trace_run_decision *decisions; // [decision_count] ascending
    int decision_count;

    int rank_count;  // of the machine, as far as plans name them
    int stage_count; // largest over the plans
    int sample_count;
    int *sample_of;            // [iteration_count] its sample, ascending; -1: it is none
    int64_t *work_ns;          // [sample_count][rank_count] -1: the rank played nothing
    int64_t *trace_work_ns;    // [sample_count] all work of an iteration of a trace; else NULL
    bool is_of_work;           // the work of the trace's iterations is compared, not their length:
                               // some have no ops, or these ran under another plan
    bool has_op_times;         // false: an older version recorded the run
    int64_t *op_ns;            // [sample_count][stage_count][OP_KIND_COUNT] median; -1: no such op
    int64_t *travel_ns;        // likewise, of awaited messages; -1: none was awaited
    const int64_t *peak_bytes; // [rank_count], or NULL: not known
    const ana_timeline *first; // timelines of the first and the last iteration; NULL: not recorded
    const ana_timeline *last;
    bool is_trace;           // recorded layers: nothing is known of what lies outside the pipeline
    bool is_by_layer;        // of it every layer is a stage of its own, and there are no ranks
    bool is_elsewhere;       // of it layers ran on other ranks than the other side's plan has them:
                             // there are no ranks
    int recorded_rank_count; // of one replica of the trace; 0: not known
} ana_observed;

/// Reads one row of one run.
///
/// @param name  number or name of the run; NULL: the newest complete one, else the newest
/// @param label the row, where there are several
/// @return STATUS_INVALID for a store without runs, an unknown run, several rows and none of that
///         label, a run without iterations or without stages; STATUS_FORMAT
status ana_observed_read(trace_store *store, const char *name, const char *label, arena *memory,
                         ana_observed *observed, error_message *err);

/// Reads a recorded trace: its samples are the iterations, each from its first op to its last or,
/// without ops, as long as all its work.
///
/// @param name number or name of the trace; NULL: the newest
/// @param plan of the other side, to whose stages layers are summed up; NULL: by layers
/// @return STATUS_INVALID for an unknown trace, another number of layers than the plan's, or an
///         iteration that takes no time
status ana_observed_read_trace(trace_store *store, const char *name, const bal_plan *plan,
                               arena *memory, ana_observed *observed, error_message *err);

/// Whether two plans have the same layers on the same ranks.
bool ana_observed_is_same_plan(const bal_plan *one, const bal_plan *other);

/// Finds the ranks and the largest number of stages of plans[plan_count].
void ana_observed_take_plans(ana_observed *observed, const bal_plan *plans, int plan_count);

/// The rank of the machine that holds a stage under a plan.
int ana_observed_rank_of(const bal_plan *plan, int stage);
