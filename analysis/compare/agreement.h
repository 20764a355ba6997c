/// How far an executed run is from the simulator's: op by op, and in time.
#pragma once

#include "balance/costs/machine.h"
#include "balance/run/iteration_times.h"
#include "balance/timeline.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Sums over the iterations that were added. Zero-initialise.
typedef struct ana_agreement {
    int iteration_count;
    int64_t predicted_ns;       // pipeline and reduction, as the simulator plays the same costs
    int64_t measured_ns;        // as executed
    int64_t op_count;           // of all ranks and replicas
    int64_t different_op_count; // begin or end is another than predicted
    int64_t difference_max_ns;  // the largest difference of a begin or an end
    int different_iteration;    // the first with a different op
    int different_rank;         // of it: place, the first of the replicas
    bal_op different_op;
} ana_agreement;

/// One iteration as it was executed. Borrowed for the call.
typedef struct ana_executed {
    int iteration;
    const bal_machine *machine;
    const bal_played_plan *played; // with the costs that ops were given or measured to have
    const bal_timeline *timelines; // [played->replica_count]
    int64_t pipeline_ns;
    int64_t reduction_ns;
} ana_executed;

/// Has the simulator play the same iteration, and compares.
///
/// @param scratch taken back
/// @return what sim_plan_replay_play refuses; STATUS_INVALID if sums do not fit int64
status ana_agreement_add(ana_agreement *agreement, const ana_executed *executed, arena *scratch,
                         error_message *err);

/// measured / predicted - 1; 0 where nothing was predicted.
double ana_agreement_error_ratio(const ana_agreement *agreement);
