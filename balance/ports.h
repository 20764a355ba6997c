/// The callbacks through which the caller connects the core and the players: the core reads no
/// file, no clock and no other folder.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/costs/placement.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Where costs come from: a recorded trace, a model, a case of dynamism.
typedef struct bal_cost_source {
    void *context;
    int layer_count;
    int iteration_count; // iterations for which the source has its own costs; it answers any other
                         // iteration with the last before it
    bool announces_changes; // *changed is a change of the model, known to whoever makes it; false:
                            // it only says that numbers differ, as those of a recorded trace do

    /// Costs of iteration >= 0. *changed: they may differ from those of the call before (always
    /// true at the first call); if the source announces changes, the model has changed, and numbers
    /// may differ where it has not. costs is borrowed until the next call.
    status (*costs_at)(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                       error_message *err);
} bal_cost_source;

typedef struct bal_problem bal_problem; // balance/problem.h

/// Ranks that take the steps of the balancer `diffusion` among themselves, in the core's place.
typedef struct bal_diffuser {
    void *context;

    /// @param first_layer [stage_count + 1] out
    /// @param has_decided out: false where the problem is not the one that the ranks have before
    ///                    them; the core then takes the steps
    status (*cuts)(void *context, const bal_problem *problem, int *first_layer, bool *has_decided,
                   error_message *err);
} bal_diffuser;

/// How the core asks what a partition would really take: a player without the player.
typedef struct bal_evaluator {
    void *context;

    /// @param layers           what microbatches are predicted to cost: one column, or one each
    /// @param plan             any number of places up to the machine's
    /// @param microbatch_count of the iteration: re-packing may ask for another than now
    /// @param iteration_ns     out: predicted length of one iteration
    status (*iteration_ns)(void *context, const bal_layer_costs *layers,
                           const bal_placed_partition *plan, int microbatch_count,
                           int64_t *iteration_ns, error_message *err);
} bal_evaluator;
