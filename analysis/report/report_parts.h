/// What the files of the report share: reading a comparison that is written down, and the figures
/// that have a file of their own. Only for report*.c and the page of a study.
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

/// How much every rank works over the iterations, of the rows before and after, as a heat map.
status ana_report_load(const ana_report *report, text_buffer *svg, error_message *err);
