/// The answer of a what-if study: for people, for programs, for spreadsheets.
#pragma once

#include "analysis/whatif/bubble_causes.h"
#include "analysis/whatif/certainty.h"
#include "analysis/whatif/whatif.h"
#include "base/status.h"
#include "base/text.h"

/// Appends the answer in two sentences, the best points as a table, what could not be played by its
/// reasons, and what the best point was computed from.
///
/// @param look      at the points of the table, at least
/// @param certainty how sure it is; NULL: nothing was drawn
/// @param row_count points of the table, besides the reference
/// @param worker    to open the best point again, for its inputs
status ana_result_print(const ana_whatif *study, const ana_closer_look *look,
                        const ana_certainty *certainty, int row_count, ana_point_worker *worker,
                        text_buffer *out, error_message *err);

/// Appends everything as one JSON object ("dynmo-study-result/1"), with all points; those that were
/// looked at more closely with the causes of their idle time.
///
/// @param certainty member "certainty"; NULL: null
void ana_result_write(const ana_whatif *study, const ana_closer_look *look,
                      const ana_certainty *certainty, text_buffer *out);

/// Appends all points as CSV with a header: numbers, values of the axes, figures.
void ana_result_write_csv(const ana_whatif *study, text_buffer *out);
