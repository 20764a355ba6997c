/// Joins the stores of shards into one, which a whole run then finds as if it had done all itself.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

typedef struct ana_merged {
    const char *name; // of the run, carved from the arena
    int shard_count;
    int64_t item_count; // that were copied; 0 if the output was complete before
} ana_merged;

/// Copies all results of a run's shards into a run of the output, which is left for the command of
/// the shards to go on with and to complete.
///
/// The newest shard in the first store says which run it is. A store may hold several of its
/// shards, and other runs. What the output has of the run already is replaced.
///
/// @param output a store; made where there is none, but not unless all shards are complete
/// @param paths  [path_count] stores, >= 1
/// @return STATUS_INVALID naming a store that holds no shard of the run; STATUS_IO naming shards
///         that are missing or not complete; as trace_store_open
status ana_shards_merge(const char *output, const char *const *paths, int path_count, arena *memory,
                        ana_merged *merged, error_message *err);
