/// The answer of a what-if study: for people, for programs, for spreadsheets.
#pragma once

#include "analysis/whatif/certainty.h"
#include "analysis/whatif/whatif.h"
#include "base/status.h"
#include "base/text.h"

/// Appends the answer in two sentences, the best points as a table, what could not be played by its
/// reasons, how sure it is, and what the best point was computed from.
///
/// @param certainty NULL: nothing was drawn
/// @param row_count points of the table, besides the reference
/// @param worker    to open the best point again, for its inputs
status ana_result_print(const ana_whatif *study, const ana_certainty *certainty, int row_count,
                        ana_point_worker *worker, text_buffer *out, error_message *err);

/// Appends everything as one JSON object ("dynmo-study-result/1"), with all points.
///
/// @param certainty member "certainty"; NULL: null
void ana_result_write(const ana_whatif *study, const ana_certainty *certainty, text_buffer *out);

/// Appends all points as CSV with a header: numbers, values of the axes, figures.
void ana_result_write_csv(const ana_whatif *study, text_buffer *out);
