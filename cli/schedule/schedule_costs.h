/// The costs file of `dynmo schedule`: what the ranks cost, in JSON.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/closed_form.h"
#include "base/arena.h"
#include "base/status.h"

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

/// As cli_schedule_costs_read, from bytes[length]; name stands for the path in messages.
status cli_schedule_costs_parse(const char *name, const char *bytes, size_t length,
                                const cli_schedule_shape *shape, arena *memory,
                                cli_schedule_costs *costs, error_message *err);
