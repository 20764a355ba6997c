/// How far an executed run is from the simulator's: op by op with the same costs, and in time from
/// what its first warm iterations let expect, with where that comes from.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/costs/machine.h"
#include "balance/run/iteration_times.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// Who sent what an op waits for.

/// @return [op_count] the op of another rank whose end lets the message leave that the op waits for
///         (of an overlapped pair the second); -1: it waits for none
const int *ana_senders(const bal_schedule *schedule, arena *memory);

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

// The forecast from warm iterations.

/// Iterations whose mean is the profile. The model changes: the next so many are.
enum { ANA_FORECAST_PROFILE = 3 };

/// Where the time of iterations went. The parts of the pipeline are those of the chain of ops that
/// ends it: every op on it began after the one before it on its rank, or after the message that it
/// waited for had been made, whichever was later.
typedef struct ana_time_parts {
    int64_t op_ns;        // ops on the chain
    int64_t message_ns;   // from the end of an op to the begin of one that waited for its message
    int64_t gap_ns;       // from the end of an op to the begin of the next on its rank
    int64_t reduction_ns; // of gradients, beyond the pipeline
    int64_t step_ns;      // of the optimizer
    int64_t kind_ns[OP_KIND_COUNT]; // all ops of all ranks and replicas, on the chain or not
} ana_time_parts;

/// The pipeline, the reduction and the step: what kind_ns counts is in them.
int64_t ana_time_parts_ns(const ana_time_parts *parts);

/// Sums over the iterations that were forecast. Zero-initialise with warmup_count and memory; it
/// must stay where it is.
typedef struct ana_forecast {
    int warmup_count;    // first iterations of the run, which are in no profile
    int seen_count;      // iterations added
    int profiled_count;  // of the profile in the making
    int change_count;    // profiles that were given up as the model had changed
    int iteration_count; // that were forecast
    ana_time_parts forecast;
    ana_time_parts measured;
    bal_costs_copy like; // what is no time
    arena *memory;       // of the sums and the profile, and of nothing else
    bal_layer_times sum; // of the profile's iterations
    int64_t sum_step_ns;
} ana_forecast;

/// Takes an iteration in: for the profile, the mean over its microbatches and replicas; or, once
/// that is made, to be compared with what the simulator says of the same plan and order from it.
///
/// @param changed the model had changed before it: the profile starts anew
/// @param step_ns of the optimizer
/// @param scratch taken back
/// @return as ana_agreement_add
status ana_forecast_add(ana_forecast *forecast, const ana_executed *executed, bool changed,
                        int64_t step_ns, arena *scratch, error_message *err);

/// measured / forecast - 1; 0 where nothing was forecast.
double ana_forecast_error_ratio(const ana_forecast *forecast);
