/// What the pages of a run and of a study share: reading what was written down, and their HTML.
#pragma once

#include "analysis/report/report.h"

/// A number or a text, or fallback where the value is none.
double ana_json_number_or(json_value value, double fallback);
const char *ana_json_string_or(json_value value, const char *fallback);

/// From the doctype to the heading.
void ana_html_begin(const char *title, text_buffer *out);

/// A figure with what stands below it; nothing if there is none. @param caption HTML
void ana_html_figure(text_buffer *out, const text_buffer *svg, const char *caption);

/// The section on where the run comes from.
void ana_html_provenance(text_buffer *out, const ana_report_fact *facts, int count);

/// The key under which a row carries its throughput, and the unit of such a key.
const char *ana_rate_key(json_value row);
const char *ana_rate_unit(const char *key);

bool ana_row_has_times(json_value row);
