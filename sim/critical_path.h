/// Why an iteration takes as long as it does: the chain of ops and messages without a gap that ends
/// it.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/timeline.h"
#include "base/arena.h"

#include <stdint.h>

/// Where the makespan goes along the path; the sum over all of it is makespan_ns. Arrays are carved
/// from memory.
typedef struct sim_critical_path {
    int stage_count;
    int64_t makespan_ns;
    int64_t (*op_ns)[OP_KIND_COUNT]; // [stage_count] time of the stage's ops of each kind
    int64_t *forward_link_ns;        // [stage_count] messages from stage s to s + 1; last: 0
    int64_t *backward_link_ns;       // [stage_count] messages from stage s to s - 1; first: 0
    int op_count;                    // on the path
    int message_count;               // on it, between ranks
} sim_critical_path;

/// Follows an iteration back from the op that ends last (the first of several) to its begin: every
/// op began when the op before it on its rank ended or when its message came; where both were at
/// the same time, the path stays on the rank. Where messages occupy ranks or wait for links, an op
/// may begin later than both: the path then goes to the one that ended last, and what lies between
/// is time of messages, waiting included.
///
/// @param timeline as sim_order_play or sim_dispatch_play fills it with these costs, all ranks
///                 beginning at 0
/// @param path     out
///
/// Time O(ops).
void sim_critical_path_of(const bal_timeline *timeline, const bal_stage_costs *costs, arena *memory,
                          sim_critical_path *path);
