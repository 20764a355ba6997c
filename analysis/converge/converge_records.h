/// Many independent plays, each of which leaves a record of fixed size, over the workers of a
/// spread. The one place of this folder that knows how work is spread.
#pragma once

#include "analysis/shards/spread.h"
#include "base/arena.h"
#include "base/status.h"

#include <stddef.h>

/// Plays are in groups of equal length, such as the instances of a point.
typedef struct ana_record_plays {
    int group_count;
    int group_length;
    size_t record_bytes;
    const void *context; // shared by all workers
    /// Makes one record, a function of context, group and index alone.
    /// @param memory the worker's own, empty at its first play; kept from play to play
    /// @param state  the worker's own: NULL at its first play
    /// @param record [record_bytes] out, zeroed
    status (*play)(const void *context, arena *memory, void **state, int group, int index,
                   void *record, error_message *err);
} ana_record_plays;

/// Under a shard only its records are filled.
///
/// @param records [group_count][group_length][record_bytes] out
/// @return as plays->play and ana_spread_run
status ana_records_play(const ana_record_plays *plays, ana_spread *spread, void *records,
                        ana_spread_report *report, error_message *err);
