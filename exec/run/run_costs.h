/// What the layers cost, as the leader tells the ranks of a modelled device: once, and again only
/// when a number is another.
#pragma once

#include "balance/layer_costs.h"
#include "balance/machine.h"
#include "balance/placement.h"
#include "balance/stage_costs.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/transport/parcel.h"

#include <stdbool.h>

/// Zero-initialise; release with exec_run_costs_free.
typedef struct exec_run_costs {
    exec_parcel parcel;             // what the leader told last
    bal_layer_costs layers;         // of this rank's replica; its arrays are in the parcel
    arena *memory;                  // of the sends
    const int64_t *send_forward_ns; // [stage_count] as bal_stage_costs, or NULL: take no time
    const int64_t *send_backward_ns;
} exec_run_costs;

/// Makes the leader's costs the ones to be told.
///
/// @param sources   [source_count] of the same layers
/// @param is_other  out: they are others than those that were told last
status exec_run_costs_put(exec_run_costs *costs, const bal_layer_costs *sources, int source_count,
                          bool *is_other);

/// The costs of a replica, as they were told last: those of source replica % source_count. Its
/// arrays are in the parcel.
bal_layer_costs exec_run_costs_of(exec_run_costs *costs, int replica);

/// Computes how long messages travel under a plan.
///
/// @param time_scale_ppb they are stretched by this / 10^9
status exec_run_costs_fill_sends(exec_run_costs *costs, const bal_placed_partition *plan,
                                 const bal_machine *machine, int64_t time_scale_ppb,
                                 error_message *err);

void exec_run_costs_free(exec_run_costs *costs);
