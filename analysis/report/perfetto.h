/// A timeline as a Chrome trace that Perfetto opens: a row per rank, arrows for messages, memory.
#pragma once

#include "analysis/report/timeline_file.h"
#include "base/text.h"

/// A Chrome trace while its events are appended. Times are written in us with three decimals,
/// exact.
typedef struct ana_events {
    text_buffer *out;
    bool has_events;
} ana_events;

ana_events ana_events_begin(text_buffer *out);
void ana_events_end(ana_events *events);

/// What a process or thread is called. @param what "process_name" or "thread_name"
void ana_event_name(ana_events *events, const char *what, int process, int thread,
                    const char *name);

/// A slice, but for its closing brace.
void ana_event_slice(ana_events *events, const char *name, int process, int thread,
                     int64_t begin_ns, int64_t length_ns);

/// Appends one document with every timeline as a process of its own, so that "before" and "after"
/// stand below each other. Slices on one row never overlap.
///
/// @param timelines [timeline_count]
/// @param memory    scratch
void ana_perfetto_write(const ana_timeline *const *timelines, int timeline_count, arena *memory,
                        text_buffer *out);
