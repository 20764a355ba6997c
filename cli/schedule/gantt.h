/// The chart of `dynmo schedule`: a timeline as lines of text, a row per rank, where it fits a
/// terminal.
#pragma once

#include "balance/timeline.h"
#include "base/text.h"

#include <stdbool.h>

/// Appends the chart. An op is its name, filled with '=' to its length ("F0=", "BW0==="), or its
/// first letter where the name does not fit; idle time is blank.
///
/// @return false, and nothing appended, if in no scale of at most 108 columns every op that takes
///         time has a column of its own
bool cli_gantt(const bal_timeline *timeline, text_buffer *out);
