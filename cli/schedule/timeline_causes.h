/// How import and show tell why the ranks of a recorded run were idle.
#pragma once

#include "base/json.h"
#include "base/text.h"
#include "traces/store/recorded_timeline.h"

/// A table: a line per rank, times as shares of the makespan.
void cli_write_timeline(text_buffer *out, const trace_recorded_timeline *timeline);

/// An object: {"iterations":n,"makespan_ns":n,"bubble_ratio":x,"ranks":[{...},...]}; times are sums
/// over the iterations.
void cli_write_timeline_json(json_writer *writer, const trace_recorded_timeline *timeline);
