/// The costs file of `dynmo schedule`: what the ranks cost, in JSON.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/closed_form.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cli_schedule_costs {
    bal_stage_costs stages;
    bool is_equal;          // every rank and microbatch costs the same: equal is filled
    bal_equal_stages equal; // times of a rank
    int64_t *memory_limit;  // [rank_count] in activations of one chunk, or NULL: none
} cli_schedule_costs;

/// Whose costs are read.
typedef struct cli_schedule_shape {
    int rank_count;
    int microbatch_count;
    int chunk_count;
    bal_placement placement;
    bool first_stage_whole; // as bal_stage_costs_join_first makes it: stages then differ
} cli_schedule_shape;

/// Reads {"forward_ns":[P],"backward_input_ns":[P],"backward_weight_ns":[P],"send_ns":n,
/// "memory_fbw":[f,b,w],"memory_limit":n|null}. Times are of a rank and one
/// microbatch, [P] or [P][M]; a chunk takes 1 / chunk_count of them. The last three keys may be
/// left out: 0, [1,0,-1] and null.
///
/// @param path  NULL: F, B and W of a chunk take 1 ns each, messages 0
/// @param costs arrays are carved from memory
/// @return STATUS_IO, STATUS_FORMAT naming file and key; STATUS_INVALID where a time does not
///         divide into the chunks.
status cli_schedule_costs_read(const char *path, const cli_schedule_shape *shape, arena *memory,
                               cli_schedule_costs *costs, error_message *err);

// The chart of `dynmo schedule`: a timeline as lines of text, a row per rank, where it fits a
// terminal.

/// Appends the chart. An op is its name, filled with '=' to its length ("F0=", "BW0==="), or its
/// first letter where the name does not fit; idle time is blank.
///
/// @return false, and nothing appended, if in no scale of at most 108 columns every op that takes
///         time has a column of its own
bool cli_gantt(const bal_timeline *timeline, text_buffer *out);

// The orders that `dynmo schedule --order` reads: a JSON document, or a table as PyTorch writes
// it.

/// Reads the order of every rank.
///
/// JSON: {"order":[["F0","B0","W0",...],...],"placement":"interleaved"|"v"}, or what
/// `dynmo schedule --json` prints. Anything else is read as CSV, a row per rank and a cell per op:
/// the same names, or PyTorch's, which begin with the stage in model order: "0F0", "0I0" for B,
/// "0W0", and "0B0" for BW. Empty cells are skipped, and so are PyTorch's cells for messages and
/// for sharding, which follow from the order. "F0&BW1" and "(0F0;7B1)OVERLAP_F_B" are an overlapped
/// pair.
///
/// The numbers of ranks, chunks and microbatches are those that occur. The order may still be one
/// that cannot be played: see bal_schedule_check.
///
/// @param schedule carved from memory
/// @return STATUS_IO; STATUS_FORMAT naming file, rank, in a CSV row and cell, and the op that is
///         none or is on a rank without its stage
status cli_schedule_order_read(const char *path, arena *memory, bal_schedule *schedule,
                               error_message *err);

/// As cli_schedule_order_read, from bytes[length]; name stands for the path in messages.
status cli_schedule_order_parse(const char *name, const char *bytes, size_t length, arena *memory,
                                bal_schedule *schedule, error_message *err);

/// Whether bytes[length] are read as JSON: their first that is no blank opens an object.
bool cli_schedule_order_is_json(const char *bytes, size_t length);
