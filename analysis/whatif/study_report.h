/// The answer of a what-if study as one HTML page: the answer in words, all points with the Pareto
/// set, the whole printed answer, and where it comes from.
#pragma once

#include "analysis/report/recorded.h"
#include "base/status.h"
#include "base/text.h"

/// Appends the page: no scripts, no fonts, nothing to fetch. Without gnuplot the figure is left out
/// and the page says so.
///
/// @param recorded with an answer
/// @return STATUS_FORMAT if the answer is not what it should be; STATUS_BACKEND if gnuplot fails
status ana_study_report_write(const ana_recorded *recorded, text_buffer *out, error_message *err);
