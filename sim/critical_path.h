/// Why an iteration takes as long as it does: the chain of ops and messages without a gap that ends
/// it.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/timeline.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/network.h"

#include <stdint.h>

/// Where the makespan goes along the path; the sum over all of it is makespan_ns. Arrays are carved
/// from memory.
typedef struct sim_critical_path {
    int stage_count;
    int64_t makespan_ns;
    int64_t (*op_ns)[OP_KIND_COUNT]; // [stage_count] time of the stage's ops of each kind
    int64_t *forward_link_ns;        // [stage_count] messages from stage s to s + 1; last: 0
    int64_t *backward_link_ns;       // [stage_count] messages from stage s to s - 1; first: 0
    int64_t link_wait_ns;            // messages that waited for others on their link
    int op_count;                    // on the path
    int message_count;               // on it, between ranks
} sim_critical_path;

/// Whether a path can tell how long messages waited for their links: they are asynchronous, and
/// every link carries those of one rank, so that they come to it in the order of that rank's ops.
///
/// @return STATUS_UNSUPPORTED naming the way of sending, or the link and two of its ranks
status sim_network_check_serial(const bal_schedule *schedule, const sim_network *network,
                                error_message *err);

/// Follows an iteration back from the op that ends last (the first of several) to its begin: every
/// op began when the op before it on its rank ended or when its message came; where both were at
/// the same time, the path stays on the rank. A message that waited for its link left after those
/// that held it: the path goes on at the first of them that did not wait itself.
///
/// Where messages occupy ranks or wait for links that the network does not tell, an op may begin
/// later than both: the path then goes to the one that ended last, and what lies between is time of
/// messages, waiting included.
///
/// @param timeline as sim_order_play or sim_dispatch_play fills it with these costs, all ranks
///                 beginning at 0
/// @param network  one that sim_network_check_serial accepts, or NULL: not told
/// @param path     out
///
/// Time O(ops).
void sim_critical_path_of(const bal_timeline *timeline, const bal_stage_costs *costs,
                          const sim_network *network, arena *memory, sim_critical_path *path);
