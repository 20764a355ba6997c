/// How often an iteration can begin anew without a global barrier, if it is repeated: the period of
/// post-validation, over all replicas, with the reduction of gradients and the chain of norms.
///
/// Iterations are played back to back (sim/iterations.h) until every rank begins the next one as
/// much later than the one before as all others do, or SIM_SETTLING_MAX times. Replicas meet in the
/// reduction of every place.
#pragma once

#include "balance/machine.h"
#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "balance/stage_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/order_book.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_period_request {
    const bal_machine *machine;    // norms travel over its links
    const bal_played_plan *played; // its replicas
    const bal_stage_costs *stages; // [round_count][played->replica_count]
    int round_count;               // >= 1
    const int64_t *reduction_ns;   // [layer_count] of bal_reduction_merge; NULL: none
    const bal_validation *validation;
    int64_t optimizer_step_ns;
    bool fails; // the validation of the iteration
} sim_period_request;

typedef struct sim_period {
    int64_t period_ns; // the step and the norm among it
    int64_t lost_ns;   // if it fails: how much later the next iteration begins
} sim_period;

/// @param memory scratch
/// @return STATUS_INVALID as sim_iterations_check_validation; STATUS_NO_MEMORY
///
/// Time O(ops * rounds * replicas), times the iterations until the period has settled: 2 or 3 for
/// most plans.
status sim_validated_period(const sim_period_request *request, arena *memory, sim_period *period,
                            error_message *err);
