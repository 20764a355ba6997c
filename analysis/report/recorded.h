/// Reads a recorded run of `dynmo simulate` or `dynmo run` back from the store, for reports and
/// exports.
#pragma once

#include "analysis/report/timeline_file.h"
#include "balance/plan.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "traces/store/runs.h"
#include "traces/store/store.h"

/// One row of the comparison over the iterations.
typedef struct ana_report_series {
    const char *label;
    int count;
    const trace_run_iteration *iterations; // [count] ascending
    bool has_times;                        // false: loads only
} ana_report_series;

/// Everything that a report shows. Arrays and strings are from the arena.
typedef struct ana_recorded {
    trace_run_info info;
    json_value comparison; // what ana_comparison_write wrote; missing: the run is a what-if study
    json_value answer;     // what ana_result_write wrote; missing: it is none
    const char *words;     // what was printed of it, or NULL
    const ana_report_series *series; // [series_count]
    int series_count;
    const trace_input_file *inputs; // [input_count]
    int input_count;
} ana_recorded;

/// Reads a run.
///
/// @param name number or name; NULL: the newest complete run
/// @return STATUS_INVALID if there is none, or it did not complete
status ana_recorded_open(trace_store *store, const char *name, arena *memory,
                         ana_recorded *recorded, error_message *err);

/// The timeline of a row at a recorded iteration.
///
/// @param label     the row
/// @param iteration -1: the last one that was recorded
/// @param timeline  must stay where it is; arrays from memory
/// @return STATUS_INVALID naming the rows and iterations that there are
status ana_recorded_timeline(trace_store *store, const ana_recorded *recorded, const char *label,
                             int iteration, arena *memory, ana_timeline *timeline,
                             error_message *err);

/// The plan that a run has recorded, carved from memory. @return what bal_plan_read returns
status ana_recorded_plan(const trace_run_plan *recorded, arena *memory, bal_plan *plan,
                         error_message *err);

/// Labels for a picture of before and after: `even` (else the first row that was played), and the
/// row with the highest throughput. Borrowed from the comparison; NULL where there is none.
void ana_recorded_before_after(const ana_recorded *recorded, const char **before,
                               const char **after);
