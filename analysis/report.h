/// A run of `dynmo simulate` as one HTML page: no scripts, no fonts, nothing to fetch.
#pragma once

#include "analysis/timeline_file.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/// One row of the comparison over the iterations.
typedef struct ana_report_series {
    const char *label;
    int count;
    const int *iteration;          // [count] ascending
    const double *bubble_ratio;    // [count]; NULL: loads only
    const double *imbalance_ratio; // [count]
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
    const ana_timeline *before;        // NULL: no picture of timelines
    const ana_timeline *after;         // NULL: only before
    const ana_report_fact *provenance; // [provenance_count]
    int provenance_count;
} ana_report;

/// Appends the page. Without gnuplot the figures are left out and the page says so.
///
/// @return STATUS_FORMAT if comparison is not what it should be; STATUS_BACKEND if gnuplot fails.
status ana_report_write(const ana_report *report, text_buffer *out, error_message *err);

/// Appends the picture of one or two timelines alone, as standalone SVG.
///
/// @param after may be NULL
status ana_report_timeline(const ana_timeline *before, const ana_timeline *after, text_buffer *svg,
                           error_message *err);
