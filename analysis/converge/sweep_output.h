/// A sweep for programs, for people and as a picture.
#pragma once

#include "analysis/converge/sweep_summary.h"
#include "base/text.h"

/// Appends a line of JSON: the point if there is one, else {"points":[...],"fit":{...}}.
void ana_sweep_write_json(const ana_sweep_answer *answer, text_buffer *out);

/// Appends what was measured beside each bound, and sentences that say what holds.
void ana_sweep_write_text(const ana_sweep_answer *answer, text_buffer *out);

/// Rounds of all points beside both bounds and the spectral prediction, over the nodes or, if there
/// is one number of nodes only, over gamma.
///
/// @param svg appended: an <svg> element
/// @return as ana_plot
status ana_sweep_draw_rounds(const ana_sweep_answer *answer, text_buffer *svg, error_message *err);
