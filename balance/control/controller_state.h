/// The plan in force of a controller, and how it is replaced. Only the controller includes this.
#pragma once

#include "balance/control/controller.h"
#include "balance/control/iteration_estimate.h"
#include "balance/control/policy.h"
#include "balance/control/shadow.h"
#include "balance/costs/layer_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"

struct bal_controller {
    bal_controller_options options;
    const bal_schedule_family *family;
    int chunk_count;
    arena *memory;          // of the controller
    arena *decision_memory; // of one call
    bal_change_detector detector;
    bal_shadow shadow;     // in use with BAL_POLICY_SHADOW
    bal_layer_times times; // of the loads that a decision looks at
    bal_layer_sums sums;   // of times
    bool is_started;

    int rank_count;       // places of the plan in force
    int microbatch_count; // of a replica under the plan in force
    int *first_layer;     // [stage_count + 1]
    int *machine_rank;    // [rank_count]
    int *owner;           // [layer_count]; in use where the balancer owns freely
    int *rank_of_layer;   // [layer_count] machine rank under the plan in force
    int64_t *inflight;    // [stage_count] microbatches whose activations a stage holds
    arena *peak_memory;   // of peaks
    bal_rank_peaks peaks; // what the chunks of each rank hold at once
    int64_t *memory_cap;  // [rank_count] or NULL: not limited
    int64_t *transfer_ns; // [layer_count] over the slower of the links between neighbours
    int64_t bottleneck_ns;
    int64_t bottleneck_lower_bound_ns;

    int64_t start_load_ns;          // time of all layers at the start
    int64_t start_rank_state_bytes; // of the rank that held the most then
    int64_t packed_load_ns;         // time of all layers when re-packing was last thought about
};

/// The plan in force with other cuts.
bal_placed_partition bal_controller_placed(const bal_controller *controller,
                                           const int *first_layer);

/// Fills inflight and peaks for so many places and microbatches.
status bal_controller_count_peaks(bal_controller *controller, int rank_count, int microbatch_count,
                                  error_message *err);

/// A decision that leaves everything as it is now.
bal_decision bal_controller_as_is(const bal_controller *controller);

/// What the balancer is asked about the plan in force. Borrows layers.
bal_problem bal_controller_problem(bal_controller *controller, const bal_layer_costs *layers);

/// The estimate for places and cuts, by the loads that the decision looks at.
int64_t bal_controller_estimate_ns(const bal_controller *controller,
                                   const bal_placed_partition *plan);

/// Where a decision would go.
typedef struct bal_controller_target {
    const bal_problem
        *problem;           // as the balancer was asked: its stage_count may be another than now
    const int *first_layer; // [problem->stage_count + 1]
    bal_reason reason;      // where layers move and the number of ranks stays
    double gain_ratio;      // share of the iteration that a move must save; 0: no such rule
} bal_controller_target;

/// Finds the way to the target, and takes it into force unless it gains too little or there is no
/// room to move. Fills the decision.
status bal_controller_move(bal_controller *controller, const bal_profile *profile,
                           const bal_controller_target *target, bal_decision *decision,
                           error_message *err);

/// Takes cuts on the places in force, or owners, into force.
void bal_controller_adopt_cuts(bal_controller *controller, const int *first_layer);
void bal_controller_adopt_owners(bal_controller *controller, const int *owner);
