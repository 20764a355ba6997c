/// The balancers: a table of names, one file per algorithm, one question and one answer.
#pragma once

#include "balance/partition/chain.h"
#include "balance/problem.h"
#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// The weights as files and options spell them: "time", "parameters", "time+transfer",
/// "layers".
extern const char *const bal_weight_names[BAL_WEIGHT_COUNT];

/// One layer that a historical diffusion balancer sent from rank to rank.
typedef struct bal_transfer {
    int from;
    int to;
    int layer;
} bal_transfer;

/// A partition, or for the two historical balancers an owner per layer. Arrays are carved from
/// the arena given to bal_balance.
typedef struct bal_answer {
    const int *first_layer; // [stage_count + 1], or NULL where owner is set
    const int *owner;       // [layer_count] rank of each layer, or NULL where first_layer is set
    int64_t *stage_load;    // [stage_count] in the unit of the weight; with an owner per layer
                            // [rank_count]
    int64_t *rank_load;     // [rank_count] sum over the chunks of a rank
    int rank_count;
    int64_t bottleneck_ns; // value of the objective (moved-bytes: the largest load of a rank), in
                           // the unit of the weight
    int64_t bottleneck_lower_bound_ns; // proven: no plan under the same rules is below it; -1: not
                                       // asked for (skips_bound), and optimal is false
    int64_t moved_bytes;               // against current_first_layer; 0 without one
    double imbalance_ratio;
    double load_spread_ratio;
    bool optimal;                  // proven: no plan under the same rules is better
    bool executable;               // contiguous and in model order
    int64_t iteration_ns;          // what the evaluator said of it; -1 where it was not asked
    const bal_transfer *transfers; // [transfer_count] diffusion-published and -coded only, in order
    int transfer_count;
    int iteration_count; // sweeps over the ranks until one moved nothing, that one included, or as
                         // many as the code makes; diffusion-published and -coded only
} bal_answer;

typedef struct bal_balancer {
    const char *name;
    bool is_static;          // decides once, from the first iteration, and never again
    bool owns_freely;        // an owner per layer instead of a partition: loads only
    bool evaluates;          // asks the problem's evaluator, and so needs one
    bool needs_chunks;       // knows ranks of several chunks only
    bal_placement placement; // of the chunks where no schedule says it
    bal_weight weight;       // what it weighs by unless told otherwise; 0: time
    /// Fills first_layer or owner, and what it knows of the rest: bottleneck_lower_bound_ns (else
    /// -1), optimal (moved-bytes only), iteration_ns, transfers. bal_balance checks and completes
    /// the answer.
    status (*balance)(const bal_problem *problem, const bal_chain *chain, arena *memory,
                      bal_answer *answer, error_message *err);
} bal_balancer;

/// Plans that `makespan` evaluates at the most.
enum { BAL_MAKESPAN_EVALUATIONS_MAX = 256 };

/// The table, in the order in which it is shown.
const bal_balancer *bal_balancers(int *count);

/// The row of a name, or NULL.
const bal_balancer *bal_balancer_find(const char *name);

/// As text_suggestion, of the names of the table.
const char *bal_balancer_suggestion(const char *name, char out[TEXT_SUGGESTION_BYTES]);

/// Checks the problem, asks the balancer, and checks its answer: every layer once, in order,
/// pinned layers in place, memory within the caps (and with moved-bytes loads within load_cap_ns),
/// the bound not above the value (asserted). The bound is the exact optimum under the same rules of
/// one chunk per rank, of two in V placement, and of the balancers that are exact; otherwise it is
/// bal_assignment_lower_bound.
///
/// With several chunks per rank the loads, the bound and the ratios are of ranks. The balancers of
/// stages (even, parameters, diffusion) still cut chunk by chunk, as the frameworks do; those that
/// give layers to ranks in any order know no chunks.
///
/// @return STATUS_INVALID naming the input that is wrong or missing; STATUS_INFEASIBLE if no plan
///         fits, or the balancer's own plan breaks a rule that it does not know, saying which.
///         answer is then untouched.
///
/// Time: the balancer's own, plus one bal_partition_* for the bound where the balancer is not
/// exact.
status bal_balance(const bal_balancer *balancer, const bal_problem *problem, arena *memory,
                   bal_answer *answer, error_message *err);

/// What the balancer `diffusion` does with a chain: rounds the flow that balances a chain of
/// divisible load to the nearest cuts, then moves single layers across cuts while the larger of two
/// loads falls: steps that look at neighbours only.
///
/// @param first_layer [stage_count + 1] out
/// @return STATUS_INFEASIBLE as bal_partition_latest
status bal_diffusion_cuts(const bal_chain *chain, arena *memory, int *first_layer,
                          error_message *err);
