/// What the simulator says of a run from its first warm iterations, beside what came: how far off,
/// and where that comes from.
#pragma once

#include "analysis/compare/agreement.h"
#include "balance/costs/layer_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

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

/// Sums over the iterations that were forecast. Zero-initialise with warmup_count; release with
/// ana_forecast_free.
typedef struct ana_forecast {
    int warmup_count;    // first iterations of the run, which are in no profile
    int seen_count;      // iterations added
    int profiled_count;  // of the profile in the making
    int change_count;    // profiles that were given up as the model had changed
    int iteration_count; // that were forecast
    ana_time_parts forecast;
    ana_time_parts measured;
    bal_costs_copy like; // what is no time
    arena *memory;       // of the sums and the profile
    int64_t *sum_ns[3];  // [layer_count] F, B, W of the profile's iterations
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

void ana_forecast_free(ana_forecast *forecast);
