/// A timeline as a JSON document ("dynmo-timeline/1"): how one iteration travels from a replay
/// through the store to the exporters and the report.
#pragma once

#include "balance/timeline.h"
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
/// @param timeline arrays are carved from memory
/// @return STATUS_FORMAT naming the key that is wrong.
status ana_timeline_read(json_value root, arena *memory, ana_timeline *timeline,
                         error_message *err);
