/// What a file of counts shows of its run before the reader of counts
/// (models/experts/expert_counts.h) is told what the counts must fit.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum ana_counts_format {
    ANA_COUNTS_CSV,      ///< the project's own
    ANA_COUNTS_MEGATRON, ///< JSON lines of one rank
} ana_counts_format;

typedef struct ana_counts_outline {
    int row_count;      // microbatches of the first line; of a CSV the largest microbatch + 1
    int local_count;    // experts of the first line; of a CSV 0
    bool is_repeated;   // the first line's rows come in pairs, as recomputation leaves them
    int last_iteration; // of any line
} ana_counts_outline;

/// Reads a whole file. Of Megatron's only the blocks `decoder` count.
///
/// @param memory for scratch
/// @return STATUS_FORMAT naming file and line: no JSON, no number, nothing of a decoder layer;
///         STATUS_IO; STATUS_NO_MEMORY. outline is then untouched.
status ana_counts_outline_read(const char *path, ana_counts_format format, arena *memory,
                               ana_counts_outline *outline, error_message *err);

/// The same from bytes[length]; name stands for the path.
status ana_counts_outline_bytes(const char *name, const char *bytes, size_t length,
                                ana_counts_format format, arena *memory,
                                ana_counts_outline *outline, error_message *err);
