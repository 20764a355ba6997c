/// The sums of a training run, iteration by iteration, refused where they would not fit int64.
#pragma once

#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "base/status.h"

#include <stdint.h>

/// Zero-initialise.
typedef struct bal_training_ledger {
    int64_t busy_ns;      // op times of all ranks of all replicas
    int64_t rank_time_ns; // the longest makespan times these ranks
    double imbalance_sum;
    int64_t place_time_ns; // places of the pipeline x time
    int iteration_count;
    bal_training_result result; // of what has been added
} bal_training_ledger;

/// Sets an iteration's length to the sum of its parts.
///
/// @return STATUS_INVALID if it does not fit
status bal_training_ledger_close(bal_training_iteration *iteration, int64_t optimizer_step_ns,
                                 error_message *err);

/// Adds an iteration that is closed.
///
/// @param times        its busy_ns and makespan_ns count
/// @param played_count replicas that these are of; further ones count as their mean
/// @return STATUS_INVALID if a sum does not fit
status bal_training_ledger_add(bal_training_ledger *ledger, const bal_training_iteration *iteration,
                               const bal_iteration_times *times, int played_count,
                               error_message *err);

/// Derives the ratios from the sums, and notes how the run has ended.
///
/// @param decision          the last
/// @param layers            of the last iteration
/// @param peak_memory_bytes [machine->rank_count] borrowed by the result
void bal_training_ledger_finish(bal_training_ledger *ledger, const bal_decision *decision,
                                const bal_machine *machine, const bal_layer_costs *layers,
                                const int64_t *peak_memory_bytes);
