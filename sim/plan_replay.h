/// One iteration as the simulator plays it, op by op, beside one that was executed: the same order,
/// plan and costs give the timeline that the executor is compared with.
#pragma once

#include "balance/machine.h"
#include "balance/run/iteration_times.h"
#include "balance/stage_costs.h"
#include "balance/timeline.h"
#include "base/arena.h"
#include "base/status.h"

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
///         plan; STATUS_NO_MEMORY
///
/// Time O(replicas x (ops + layers x columns)), most of it for compiling the order anew.
status sim_plan_replay_play(const bal_machine *machine, const bal_played_plan *played,
                            arena *memory, sim_plan_replay *replay, error_message *err);
