/// When to rebalance without knowing the model or when it changes: plans that are not taken run
/// beside the one in force as its shadows, and what keeping it has cost against each of them is
/// added up. A shadow's plan is taken when that sum reaches the price of moving to it, as a skier
/// rents until the rent has cost a pair of skis; so waiting too long and moving too soon are paid
/// at most once each.
///
/// Each shadow follows the layer times through an exponential mean of its own (factors 1, 0.3 and
/// 0.05): the first sees a change at once, the last sees through noise. Its plan is made of what
/// was known before an iteration and judged by what that iteration measured, so that a plan that
/// only fits noise earns nothing. Its sum restarts when it falls to 0, and must stand clear of the
/// noise of its own terms. A move is judged too, against the plan that it left: where the next one
/// is due before it has saved what it cost, as an adversary would arrange it, the price is doubled,
/// up to eightfold; once a move has paid for itself it is halved again.
///
/// Source: CUSUM (Page, Biometrika 41, 1954) over the regret of not having switched, with the
/// threshold of ski rental (Karlin et al., Algorithmica 3, 1988); the folder's README has the
/// measured ratios to an offline optimum.
#pragma once

#include "balance/control/controller.h"
#include "balance/control/iteration_estimate.h"
#include "balance/costs/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { BAL_SHADOW_COUNT = 3 };

/// One plan that is not taken.
typedef struct bal_shadow_plan {
    double factor;    // of the exponential mean
    double *mean_ns;  // [layer_count] F + B + W
    int *first_layer; // [stage_count + 1]
    bool is_other;    // it differs from the plan in force; else first_layer means nothing
    int64_t cost_ns;  // of moving to it
    double excess;    // largest stage over mean stage when it was made
    int age;          // iterations since it was made; -1: to be made
    double regret_ns; // sum of its terms since it was last 0
    int regret_count; // terms in the sum
    int term_count;   // terms since the start: few of them do not tell their noise
    bool has_last;    // last_ns is a term of the same plan in force
    double last_ns;   // the last term
    double noise_ns2; // variance of the terms, from the differences of neighbours
} bal_shadow_plan;

/// Filled by bal_shadow_init; one object for one run.
typedef struct bal_shadow {
    const bal_controller_options *options;
    const bal_schedule_family *family;
    bal_shadow_plan plans[BAL_SHADOW_COUNT];
    int iteration_count;        // seen so far
    double price_factor;        // in [1, 8]
    int *left_first_layer;      // [stage_count + 1] the plan that the last move left
    bool has_left;              // it can still be compared
    bool has_paid;              // the last move has saved what it cost
    double saved_ns;            // by the last move so far
    int64_t last_cost_ns;       // of the last move
    bal_layer_times mean_times; // scratch: means with the passes' shares of the last iteration
    bal_layer_sums mean_sums;   // scratch: of mean_times
} bal_shadow;

/// Carves the arrays from memory.
///
/// @param options borrowed as long as the shadows live, with family; the balancer is not one that
///                owns freely
void bal_shadow_init(bal_shadow *shadow, const bal_controller_options *options,
                     const bal_schedule_family *family, int stage_count_max, arena *memory);

/// What the shadows are shown of an iteration. Borrowed for the call.
typedef struct bal_shadow_view {
    const bal_layer_times *times; // as measured
    const bal_layer_sums *sums;   // of times
    const bal_problem *problem;   // what the balancer is asked, with the plan in force; its times
                                  // are not read
} bal_shadow_view;

/// Looks at the iteration that has just ended and says whether to take a shadow's plan.
///
/// @param memory      for scratch, borrowed for the call
/// @param first_layer out: the cuts to move to, valid until the next call; NULL: stay
/// @return what bal_balance and bal_migration_between refuse. Time O(layers + stages), and every
///         few iterations, or when the loads have shifted, that of the balancer and of
///         bal_partition_chunks_moved_bytes.
status bal_shadow_observe(bal_shadow *shadow, const bal_shadow_view *view, arena *memory,
                          const int **first_layer, error_message *err);

/// Forgets the plans and the sums, not the means: the plan in force has been changed by somebody
/// else, or has another number of ranks.
void bal_shadow_restart(bal_shadow *shadow);
