/// The answer of a what-if study as one HTML page: for who decides, the answer in words, the points
/// with their error bars and the Pareto set; for who checks it, what was held, what idle time is
/// there for, what could not be played, how sure it is, every input with its origin, and where it
/// comes from.
#pragma once

#include "analysis/report/report.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

// The pictures of a study's page. Only for study_report.c.

/// The point with this number in the answer; missing if there is none. Looks through them all.
json_value ana_study_point(json_value answer, int64_t number);

/// "17: stages 8, schedule zb-h1".
void ana_study_label(json_value answer, json_value point, text_buffer *out);

/// Time of the whole training in hours or, where tokens are not known, of an iteration in ms.
double ana_study_time(json_value point, bool *is_hours);

/// The best points with their error bars; nothing if none are drawn.
status ana_study_figure_bars(json_value answer, text_buffer *svg, error_message *err);

/// Every point: time against cost, GPU-hours or memory, whichever tells them apart.
status ana_study_figure_pareto(json_value answer, text_buffer *svg, error_message *err);

/// What the idle time of the best points is there for.
status ana_study_figure_idle(json_value answer, text_buffer *svg, error_message *err);

typedef struct ana_study_report {
    const json_document *answer;       // what ana_result_write wrote
    const char *words;                 // what ana_result_print wrote; NULL: not kept
    const ana_report_fact *provenance; // [provenance_count]
    int provenance_count;
} ana_study_report;

enum { ANA_STUDY_REPORT_ROWS = 25, ANA_STUDY_REPORT_DOTS = 20000 };

/// Appends the page: no scripts, no fonts, nothing to fetch. Tables and bars show the best
/// ANA_STUDY_REPORT_ROWS points. Without gnuplot the figures are left out and the page says so.
///
/// @return STATUS_FORMAT if the answer is not what it should be; STATUS_BACKEND if gnuplot fails;
status ana_study_report_write(const ana_study_report *report, text_buffer *out, error_message *err);
