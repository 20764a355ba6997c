/// One iteration of the static engine with all that can be asked of it: begin and end of every op,
/// the memory of the ranks op by op, what every op waited for, and the critical path. Messages may
/// hold the links that they share.
#pragma once

#include "balance/stage_costs.h"
#include "balance/timeline.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/network.h"
#include "sim/pipeline.h"

#include <stdbool.h>
#include <stdint.h>

/// What an op began behind. Where its rank was free and a message came at the same time, the rank.
typedef enum sim_bound {
    SIM_BOUND_RANK,         ///< the op before it on its rank, or the begin of the iteration
    SIM_BOUND_MESSAGE,      ///< the message that it waits for
    SIM_BOUND_PAIR_MESSAGE, ///< that of the op that it overlaps
} sim_bound;

/// The longest chain of ops and messages, from the begin of the iteration to the end of its last
/// op: what makes it as long as it is. All its parts add up to that end.
typedef struct sim_critical_path {
    int op_count;
    int message_count;    // between ranks
    int64_t *op_ns;       // [rank_count][OP_KIND_COUNT]
    int64_t *forward_ns;  // [stage_count] messages that the stage sends on
    int64_t *backward_ns; // [stage_count] and back
    int64_t link_wait_ns; // messages that waited for others on their link
} sim_critical_path;

/// What is kept of a play. Filled by sim_recorder_play; the arrays are the recorder's.
typedef struct sim_record {
    bal_timeline timeline;
    int64_t makespan_ns; // first op begin to last op end
    int64_t *memory; // [op_count] of the op's rank behind the op's change, see bal_memory_change
    int64_t *peak_memory; // [rank_count] as bal_memory_peak
    uint8_t *bound;       // [op_count] sim_bound
    sim_critical_path path;
} sim_record;

typedef struct sim_recorder sim_recorder;

/// Whether the static engine can play a network: messages are asynchronous, and every link carries
/// those of one rank, so that they come to it in the order of that rank's ops.
///
/// @return STATUS_UNSUPPORTED naming the way of sending, or the link and two of its ranks
status sim_network_check_serial(const bal_schedule *schedule, const sim_network *network,
                                error_message *err);

/// Prepares an order for being recorded.
///
/// @param order   borrowed for the life of the recorder
/// @param network one that sim_network_check_serial and sim_network_check accept, borrowed for the
///                life of the recorder; or NULL: no message waits for another
/// @param out     carved from memory; serves one play at a time
/// @return STATUS_NO_MEMORY
status sim_recorder_create(const sim_order *order, const sim_network *network, arena *memory,
                           sim_recorder **out, error_message *err);

/// Plays one iteration, all ranks beginning at 0.
///
/// @param costs ones that sim_costs_check accepts
/// @return borrowed until the next play
///
/// Without a network the timeline is that of sim_order_play. Time O(ops), no allocation.
const sim_record *sim_recorder_play(sim_recorder *recorder, const bal_stage_costs *costs);
