/// `dynmo schedule --explain`: what makes the iteration as long as it is, its critical path.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/timeline.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/text.h"

#include <stdint.h>

/// The time on the path, by what it is spent for. All of it together is the makespan.
typedef struct cli_schedule_path {
    int rank_count; // 0: not asked
    int op_count;
    int message_count;    // between ranks
    const int64_t *op_ns; // [rank_count][OP_KIND_COUNT]
    int64_t forward_ns;   // messages with outputs
    int64_t backward_ns;  // and with gradients
} cli_schedule_path;

/// Finds the path of an iteration that was played, by any policy, where no message waits for
/// another.
///
/// @param costs  that it was played with
/// @param memory of op_ns, too
cli_schedule_path cli_schedule_path_find(const bal_timeline *played, const bal_stage_costs *costs,
                                         arena *memory);

/// Adds the key to an object that is open; none if the path was not asked for.
void cli_schedule_path_json(const cli_schedule_path *path, json_writer *writer);

/// Adds the lines; none if the path was not asked for.
void cli_schedule_path_text(const cli_schedule_path *path, text_buffer *out);
