/// Replays a training run: iteration after iteration of all pipeline replicas, with the controller
/// deciding and every rebalance paid for.
#pragma once

#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"
#include "sim/order_book.h"

/// Replays the run.
///
/// The plan of the start is the balancer's own for iteration 0, as somebody would choose who
/// profiled it before the training began; iteration 0 is therefore no change.
///
/// With several sources the controller sees one column of times per layer: the mean over the
/// microbatches of a replica, the largest over the replicas.
///
/// @param orders compiled orders of earlier replays, used by nobody else meanwhile; what is
///               compiled stays there for the next. NULL: none are kept
/// @param result arrays are carved from memory
/// @return STATUS_INVALID for a wrong count, a slow rank that the machine does not have or without
///         a positive factor, sources of different layers, a schedule rule broken, costs without a
///         backward split under a schedule that needs one, or sums (of an iteration's layers or
///         over the run) that do not fit int64; STATUS_INFEASIBLE if at some decision no plan fits
///         the memory; what the source or the sink returns.
///
/// Time O(iterations x sources x (ops + layers x microbatches)) where loads change in every
/// iteration; iterations that repeat the costs and the plan of the one before are not played again.
/// Owners of layers without stages (`diffusion-published`, `diffusion-coded`) are followed in loads
/// only.
status sim_training_replay(const bal_training *training, sim_order_book *orders, arena *memory,
                           bal_training_result *result, error_message *err);
