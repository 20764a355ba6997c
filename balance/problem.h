/// The inputs of one decision: who shall own which layer.
#pragma once

#include "balance/costs/layer_costs.h"
#include "balance/ports.h"
#include "balance/rank_peaks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// What a balancer weighs layers by.
typedef enum bal_weight {
    BAL_WEIGHT_TIME,          ///< F + B + W
    BAL_WEIGHT_PARAMETERS,    ///< parameter counts
    BAL_WEIGHT_TIME_TRANSFER, ///< time, and the stage's wait for its neighbours' transfers
    BAL_WEIGHT_LAYERS,        ///< 1 each, embedding and head 0: DeepSpeed's "type:transformer"
    BAL_WEIGHT_COUNT
} bal_weight;

/// What a balancer minimises.
typedef enum bal_objective {
    BAL_OBJECTIVE_BOTTLENECK,  ///< the largest load of a rank: its stage's, or the sum of its
                               ///< chunks'
    BAL_OBJECTIVE_1F1B_BOUND,  ///< max over stages of (loads of the stages before + M * own load);
                               ///< one chunk per rank only
    BAL_OBJECTIVE_MOVED_BYTES, ///< bytes that change their rank, with every load <= load_cap_ns
    BAL_OBJECTIVE_COUNT
} bal_objective;

/// Load of a stage = time_factor * sum of its layers + fixed; 0 if it is empty.
/// Memory of a stage = sum of state_bytes + inflight * sum of activation_bytes.
/// Load of a rank = sum over its stages. Memory of a rank = sum of state_bytes of its stages + what
/// rank_peaks make of their activations (without: the sum over its stages).
struct bal_problem {
    bal_layer_costs layers; // where microbatch_count > 1, the mean over columns counts
    int stage_count;
    int chunk_count;         // stages per rank; 0: 1
    bal_placement placement; // of the chunks
    const int *machine_rank; // [stage_count / chunk_count] or NULL: as in bal_placed_partition
    bal_weight weight;
    bal_objective objective;
    bool allow_empty_stages;
    int diffusion_iteration_max;       // diffusion-published only: the paper's max_iters; 0: until
                                       // nothing moves
    int microbatch_count;              // M of the 1f1b bound and of the evaluator
    const int64_t *transfer_ns;        // [layer_count] or NULL: time of layer l's output to l + 1
                                       // on another rank; needed by BAL_WEIGHT_TIME_TRANSFER
    const int64_t *stage_memory_bytes; // [stage_count] or NULL: no caps
    const int64_t *stage_inflight;     // [stage_count] or NULL: 1 each
    const int64_t *rank_memory_bytes;  // [stage_count / chunk_count] or NULL: no caps on what all
                                       // chunks of a rank hold together
    const bal_rank_peaks *rank_peaks;  // of as many ranks and chunks; NULL: see above
    const int64_t *stage_time_factor_ppb; // [stage_count] or NULL: 1 each; parts per 10^9 (an
                                          // integer so that all machines round alike)
    const int64_t *stage_fixed_ns;        // [stage_count] or NULL: 0 each
    int64_t load_cap_ns;                  // moved-bytes only
    const int *given_first_layer;    // [stage_count + 1] `given` only: the split that it answers
    const int *current_first_layer;  // [stage_count + 1] or NULL: the plan in force
    int current_stage_count;         // of current_first_layer where it differs; 0: same
    const int *current_owner;        // [layer_count] or NULL: the plan in force where it has
                                     // owners instead; only diffusion-published and -coded
    struct bal_plan_book *plan_book; // exact plans found before; NULL: none is kept
    bool skips_bound; // the answer's bound stays -1 where it would be found for itself alone
    const bal_evaluator *evaluator; // `makespan`, re-packing and, where there is one, `tuned`
    const bal_diffuser *diffuser;   // `diffusion` only; NULL: the core decides
};

/// value * (1 + ratio), at most INT64_MAX.
static inline int64_t bal_grown(int64_t value, double ratio)
{
    const double more = ratio * (double)value;
    return more >= (double)(INT64_MAX - value) ? INT64_MAX : value + (int64_t)more;
}

/// A partition of the problem's layers as its evaluator is to play it.
///
/// @param first_layer [stage_count + 1] borrowed by the result
static inline bal_placed_partition bal_problem_placed(const bal_problem *problem,
                                                      const int *first_layer)
{
    const int chunks = problem->chunk_count > 0 ? problem->chunk_count : 1;
    return (bal_placed_partition){.first_layer = first_layer,
                                  .rank_count = problem->stage_count / chunks,
                                  .chunk_count = chunks,
                                  .placement = problem->placement,
                                  .machine_rank = problem->machine_rank};
}

/// Asks the evaluator what an iteration of a plan takes with the problem's layers and microbatches.
static inline status bal_problem_predict(const bal_problem *problem,
                                         const bal_placed_partition *plan, int64_t *iteration_ns,
                                         error_message *err)
{
    return problem->evaluator->iteration_ns(problem->evaluator->context, &problem->layers, plan,
                                            problem->microbatch_count, iteration_ns, err);
}
