/// One iteration of all replicas: every pipeline is played, and their gradients are reduced. In a
/// run, or on its own, op by op, beside one that was executed: the same order, plan and costs give
/// the timeline that the executor is compared with.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/costs/machine.h"
#include "balance/costs/placement.h"
#include "balance/costs/stage_costs.h"
#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/network.h"
#include "sim/order_book.h"

#include <stdbool.h>
#include <stdint.h>

/// What is to be played.
typedef struct sim_play_request {
    bal_played_plan played; // what of it is the order's is filled in
    const bal_machine *machine;
    sim_compiled_order *order;          // of the plan
    int round_count;                    // of gradient accumulation; 0: 1
    const bal_disturbance *disturbance; // NULL: none
    int64_t iteration;                  // whose draws it takes
} sim_play_request;

/// What came of it. Arrays live until the next play in the same memory.
typedef struct sim_play {
    bal_iteration_times times;
    const bal_stage_costs *stages; // [round_count][replica_count]
    const sim_network *networks;   // [replica_count]; NULL: messages are asynchronous and delay
                                   // nobody
} sim_play;

/// The timeline of one replica in the first round of what was played.
///
/// @param order    that was played
/// @param timeline out: arrays are carved from memory, or the order's until its next play
/// @return what sim_dispatch_play refuses
status sim_play_timeline(const sim_play *play, int replica, sim_compiled_order *order,
                         arena *memory, bal_timeline *timeline, error_message *err);

/// Plays one iteration. Where the machine's messages occupy ranks or share links, the event engine
/// plays it, else the static one.
///
/// @param memory of everything in play; nothing is taken back
/// @return STATUS_INVALID if times do not fit: see bal_stage_costs_from_layers, sim_costs_check
///
/// Time O(replicas * (rounds * ops + layers * columns)).
status sim_play_replicas(const sim_play_request *request, arena *memory, sim_play *play,
                         error_message *err);

/// What came of it. Arrays live as long as the memory.
typedef struct sim_plan_replay {
    bal_iteration_times times;     // pipeline_ns and reduction_ns as sim_training_replay has them
    const bal_timeline *timelines; // [replica_count] of played->schedule
    const bal_stage_costs *stages; // [replica_count] what the stages cost, slow ranks included
} sim_plan_replay;

/// Plays one iteration of all replicas.
///
/// Where the costs are the ones that a run was given, rank_time_factor are the speeds of the
/// iteration (bal_training_speeds); where they were measured on the ranks that held the layers, it
/// is NULL. Executed and simulated parts compare because both come from bal_iteration_finish.
///
/// @param played        its last_backward may be NULL: it is found
/// @param machine       sends between ranks are those of its links; at least as many ranks as the
///                      plan names
/// @param replay        out: arrays are carved from memory; untouched on failure
/// @return what bal_placed_check, bal_schedule_check, bal_stage_costs_from_layers and
///         sim_costs_check refuse; STATUS_INVALID for a schedule of other ranks or chunks than the
///         plan
///
/// Time O(replicas x (ops + layers x columns)), most of it for compiling the order anew.
status sim_plan_replay_play(const bal_machine *machine, const bal_played_plan *played,
                            arena *memory, sim_plan_replay *replay, error_message *err);
