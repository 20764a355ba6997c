/// What the pages of a run and of a study share: reading what was written down, and their HTML.
#pragma once

#include "analysis/report/recorded.h"
#include "base/text.h"

/// A number or a text, or fallback where the value is none.
double ana_json_number_or(json_value value, double fallback);
const char *ana_json_string_or(json_value value, const char *fallback);

/// From the doctype to the heading.
void ana_html_begin(const char *title, text_buffer *out);

/// A figure with what stands below it; nothing if there is none. @param caption HTML
void ana_html_figure(text_buffer *out, const text_buffer *svg, const char *caption);

/// The section on where the run comes from.
void ana_html_provenance(text_buffer *out, const ana_report_fact *facts, int count);

/// What was printed of an answer; nothing if words are NULL.
void ana_html_words(text_buffer *out, const char *words);
