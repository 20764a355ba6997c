/// A sweep for programs and for people.
#pragma once

#include "analysis/converge/sweep_summary.h"
#include "base/text.h"

/// Appends a line of JSON: the point if there is one, else {"points":[...],"fit":{...}}.
void ana_sweep_write_json(const ana_sweep_answer *answer, text_buffer *out);

/// Appends what was measured beside each bound.
void ana_sweep_write_text(const ana_sweep_answer *answer, text_buffer *out);
