/// Stage costs as a play reads them: checked once, then one row per kind of op and stage.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Refuses costs that a play could not add up. Both engines assume that it passed.
///
/// @return STATUS_INVALID naming what does not fit: costs are of another number of stages, or of
///         microbatches other than 1 and the schedule's; a cost is negative; all ops and messages
///         together take longer than INT64_MAX / 4 ns; the memory of all microbatches exceeds
///         INT64_MAX / 4.
status sim_costs_check(const bal_schedule *schedule, const bal_stage_costs *costs,
                       error_message *err);

/// What all ops of one kind and stage have in common.
typedef struct sim_row {
    const int64_t *op_ns; // [microbatch_count], or [1] if the table has no columns
    int64_t transfer_ns;  // end of the op until its message is there
} sim_row;

/// The rows of a schedule, made once and filled for each play. Those of the second half are joints:
/// where a pair of overlapping ops waits or sends, which takes no time.
typedef struct sim_cost_table {
    const bal_schedule *schedule;
    int stage_count;
    uint32_t column_mask;       // microbatch & column_mask is the column of a row
    sim_row *rows;              // [2][OP_KIND_COUNT][stage_count]
    const bool *has_message;    // [OP_KIND_COUNT][stage_count] another rank waits for it
    bool has_delays;            // messages take longer by delay_rows
    const int64_t **delay_rows; // [2][OP_KIND_COUNT][stage_count] as op_ns of the rows
    bool has_full_backward;     // some op is a BW
    int64_t *full_backward_ns;  // [stage_count][microbatch_count] scratch, if has_full_backward
    const int64_t *no_ns;       // [microbatch_count] zeros
} sim_cost_table;

/// @param table carved from memory; schedule is borrowed for its life
void sim_cost_table_init(const bal_schedule *schedule, arena *memory, sim_cost_table *table);

/// Points the rows at costs, which are borrowed for the plays that follow. Time O(stages), with BW
/// O(stages * microbatches); no allocation.
void sim_cost_table_fill(sim_cost_table *table, const bal_stage_costs *costs);
