/// A run under one plan that stays: what a plan file predicts, iteration by iteration.
#pragma once

#include "balance/plan.h"
#include "balance/run/training.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// Simulates every iteration of a run under a plan, as `dynmo run` executes it, and hands each to
/// training->sink. Nothing is decided; balancer and policy are not read.
///
/// @param training   of the plan's ranks, chunks, schedule and microbatches
/// @param plan       of as many layers as the sources have; its order counts where it has one
/// @param memory     for as long as the run
/// @param peak_bytes [machine.rank_count] out: state and activations, largest over the run
/// @return what the sources, the sink, bal_training_order and sim_plan_replay_play return
///
/// Iterations whose costs are those of the one before are not played again.
status ana_plan_predict(const bal_training *training, const bal_plan *plan, arena *memory,
                        int64_t *peak_bytes, error_message *err);
