/// A run of `dynmo simulate` as one HTML page: no scripts, no fonts, nothing to fetch.
#pragma once

#include "analysis/compare/course.h"
#include "analysis/report/timeline_file.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "traces/store/runs.h"

#include <stdint.h>

/// One row of the comparison over the iterations.
typedef struct ana_report_series {
    const char *label;
    int count;
    const int *iteration;            // [count] ascending
    const double *bubble_ratio;      // [count]; NULL: loads only
    const double *imbalance_ratio;   // [count]
    const ana_rank_step *rank_steps; // [rank_step_count] by iteration; none in old records
    int rank_step_count;
    const trace_run_work *work; // [work_count] by iteration and place; none in old records
    int work_count;
} ana_report_series;

typedef struct ana_report_fact {
    const char *name;
    const char *value;
} ana_report_fact;

typedef struct ana_report {
    const char *title;
    const json_document *comparison; // what ana_comparison_write wrote
    const ana_report_series *series; // [series_count]
    int series_count;
    const ana_timeline *before; // NULL: no picture of timelines
    const ana_timeline *after;  // NULL: only before
    const char *before_label;   // rows whose loads are drawn; NULL: none
    const char *after_label;
    const ana_report_fact *provenance; // [provenance_count]
    int provenance_count;
} ana_report;

/// The pictures of a report.
typedef enum ana_figure {
    ANA_FIGURE_TIMELINE,   ///< one iteration before and after
    ANA_FIGURE_LOAD,       ///< work of every rank over the iterations, as a heat map
    ANA_FIGURE_RANKS,      ///< ranks in use over the iterations
    ANA_FIGURE_THROUGHPUT, ///< of every row
    ANA_FIGURE_BUBBLE,     ///< bubble_ratio over the iterations
    ANA_FIGURE_IMBALANCE,  ///< imbalance_ratio over the iterations
    ANA_FIGURE_COUNT
} ana_figure;

/// "timeline", "load", "ranks", "throughput", "bubble", "imbalance".
extern const char *const ana_figure_names[ANA_FIGURE_COUNT];

/// Appends one picture as standalone SVG; nothing if the report has nothing to draw in it.
///
/// @return STATUS_UNSUPPORTED without gnuplot; STATUS_BACKEND if it fails
status ana_report_figure(const ana_report *report, ana_figure figure, text_buffer *svg,
                         error_message *err);

/// Appends the page. Without gnuplot the figures are left out and the page says so.
///
/// @param out what was appended stays where this fails
/// @return STATUS_FORMAT if comparison is not what it should be; STATUS_BACKEND if gnuplot fails.
status ana_report_write(const ana_report *report, text_buffer *out, error_message *err);
