/// The order of the ops under a plan of a training run: what the schedule of the run is built from.
#pragma once

#include "balance/layer_costs.h"
#include "balance/partition/placed_partition.h"
#include "balance/run/training.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"

/// Fills the request for a plan's order. Searched schedules get what the stages cost, and where
/// ranks have a limit what their state leaves of it to activations.
///
/// @param placed           with any number of places up to the machine's
/// @param layers           read for searched schedules only, else may be NULL; where their columns
///                         are neither 1 nor microbatch_count, the means over them count
/// @param microbatch_count that one replica plays
/// @param request          out: arrays are carved from memory
/// @return STATUS_INVALID for times that do not fit; STATUS_NO_MEMORY
status bal_training_order_request(const bal_training *training, const bal_placed_partition *placed,
                                  const bal_layer_costs *layers, int microbatch_count,
                                  arena *memory, bal_schedule_request *request, error_message *err);

/// Builds the order: equal arguments give equal orders, on every rank that asks.
///
/// @param schedule out: carved from memory
/// @return what bal_training_order_request and bal_schedule_build refuse
status bal_training_order(const bal_training *training, const bal_placed_partition *placed,
                          const bal_layer_costs *layers, int microbatch_count, arena *memory,
                          bal_schedule *schedule, error_message *err);
