/// A sweep for programs and for people.
#pragma once

#include "analysis/converge/converge_fit.h"
#include "base/text.h"

/// Everything that is printed. Borrowed.
typedef struct ana_sweep_answer {
    const ana_sweep *sweep;
    const ana_sweep_point *points;
    const ana_point_summary *summaries; // [ana_sweep_point_count]
    const ana_sweep_fit *fit;
} ana_sweep_answer;

/// Appends a line of JSON: the point if there is one, else {"points":[...],"fit":{...}}.
void ana_sweep_write_json(const ana_sweep_answer *answer, text_buffer *out);

/// Appends what was measured beside each bound, and sentences that say what holds.
void ana_sweep_write_text(const ana_sweep_answer *answer, text_buffer *out);
