/// The answer of a what-if study as one HTML page: the answer in words, the best points with their
/// error bars, all points with the Pareto set, the whole printed answer, and where it comes from.
#pragma once

#include "analysis/report/report.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

typedef struct ana_study_report {
    const json_document *answer;       // what ana_result_write wrote
    const char *words;                 // what ana_result_print wrote; NULL: not kept
    const ana_report_fact *provenance; // [provenance_count]
    int provenance_count;
} ana_study_report;

enum { ANA_STUDY_REPORT_ROWS = 25, ANA_STUDY_REPORT_DOTS = 20000 };

/// Appends the page: no scripts, no fonts, nothing to fetch. Bars are of the best
/// ANA_STUDY_REPORT_ROWS points. Without gnuplot the figures are left out and the page says so.
///
/// @return STATUS_FORMAT if the answer is not what it should be; STATUS_BACKEND if gnuplot fails
status ana_study_report_write(const ana_study_report *report, text_buffer *out, error_message *err);
