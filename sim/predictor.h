/// Predictions for a player that is not the simulator: what an iteration under a plan would take,
/// by playing it.
#pragma once

#include "balance/ports.h"
#include "balance/run/training.h"
#include "base/status.h"

/// Keeps the orders that it has compiled. One prediction at a time.
typedef struct sim_predictor sim_predictor;

/// @param training  borrowed until the predictor is destroyed; schedule, chunks, machine, barrier
///                  and overlap count, and of the sources layer_count alone: costs come with the
///                  question
/// @param predictor out: owned by the caller, who releases it with sim_predictor_destroy; NULL on
///                  failure
/// @return what bal_training_check refuses; STATUS_NO_MEMORY
status sim_predictor_create(const bal_training *training, sim_predictor **predictor,
                            error_message *err);

/// NULL is allowed.
void sim_predictor_destroy(sim_predictor *predictor);

/// The evaluator for bal_training_controller: plays one replica of D, as if there were no further
/// ones, and answers with the pipeline and the exposed reduction. Balancers and re-packing name the
/// number of microbatches in their question, so that nobody has to tell the predictor which plan is
/// in force; asked without it, it takes the number of the start.
///
/// @return borrowed until the predictor is destroyed
const bal_evaluator *sim_predictor_evaluator(const sim_predictor *predictor);
