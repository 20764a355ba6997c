/// A timeline as a Chrome trace that Perfetto opens: a row per rank, arrows for messages, memory.
#pragma once

#include "analysis/report/timeline_file.h"
#include "base/text.h"

/// Appends one document with every timeline as a process of its own, so that "before" and "after"
/// stand below each other. Times in us with three decimals, exact; slices on one row never overlap.
///
/// @param timelines [timeline_count]
/// @param memory    scratch
void ana_perfetto_write(const ana_timeline *const *timelines, int timeline_count, arena *memory,
                        text_buffer *out);
