/// A timeline as a JSON document ("dynmo-timeline/1"): how one iteration travels from a replay
/// through the store to the exporters and the report.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/// A timeline with what is needed to explain it.
typedef struct ana_timeline {
    const char *label; // which row of a comparison it belongs to
    int iteration;
    bal_schedule schedule;
    bal_timeline timeline;                // timeline.schedule points to schedule
    const int *first_layer;               // [rank_count * chunk_count + 1]
    const int64_t *memory_forward;        // [stage_count] changes of memory as in
    const int64_t *memory_backward_input; // bal_stage_costs
    const int64_t *memory_backward_weight;
    const char *memory_unit; // what they count, NULL: bytes. Not written to a document
} ana_timeline;

/// Appends the document. Times are in ns from the begin of the iteration.
void ana_timeline_write(const ana_timeline *timeline, text_buffer *out);

/// Reads a document that ana_timeline_write wrote. timeline itself must stay where it is: its
/// schedule is pointed to.
///
/// @param timeline arrays are carved from memory, strings borrowed from the document
/// @return STATUS_FORMAT naming the key that is wrong.
status ana_timeline_read(json_value root, arena *memory, ana_timeline *timeline,
                         error_message *err);

// A timeline as a Chrome trace that Perfetto opens: a row per rank, arrows for messages, memory.

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
