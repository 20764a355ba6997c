/// A problem made ready for cutting: load and memory of any run of layers in constant time.
#pragma once

#include "balance/problem.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// The layers of a problem as prefix sums, weighed by its weight. Loads are in the unit of the
/// weight: ns, or parameters, where time factors and fixed times do not count.
typedef struct bal_chain {
    int layer_count;
    int stage_count;
    int chunk_count; // stages per rank
    bal_placement placement;
    bool allow_empty_stages;
    bool embedding;                       // layer 0 stays on the first stage
    bool head;                            // the last layer stays on the last stage
    const int64_t *weight_before;         // [layer_count + 1] sum of the layers in front
    const int64_t *state_before;          // [layer_count + 1] bytes; all 0 where not known
    const int64_t *activation_before;     // [layer_count + 1] bytes; all 0 where not known
    const int64_t *transfer_ns;           // [layer_count] or NULL: cuts cost nothing
    const int64_t *stage_memory_bytes;    // [stage_count] or NULL: no caps
    const int64_t *stage_inflight;        // [stage_count] or NULL: 1 each
    const int64_t *rank_memory_bytes;     // [stage_count / chunk_count] or NULL: no caps
    const bal_rank_peaks *rank_peaks;     // or NULL: every stage holds its stage_inflight
    const int64_t *stage_time_factor_ppb; // [stage_count] or NULL: 1 each
    const int64_t *stage_fixed_ns;        // [stage_count] or NULL: 0 each
    int64_t load_sum_max;                 // no plan's loads add up to more; < INT64_MAX
} bal_chain;

enum { BAL_LAYERS_MAX = 1 << 20 };

/// Checks the loads of a problem and sums them up. Numbers per stage and rank, transfers and caps
/// are not negative, time factors above 0.
///
/// @param chain arrays are carved from memory or borrowed from problem
/// @return STATUS_INVALID naming the input that is missing, negative or too large: sums of weights,
///         loads and bytes must fit int64; or the count or cut that does not fit the layers.
status bal_chain_of(const bal_problem *problem, arena *memory, bal_chain *chain,
                    error_message *err);

/// Sets load_sum_max: every layer at the largest factor, every fixed time, every transfer at both
/// of its ends, and half a unit of rounding per stage. Of the weights only their total is read.
///
/// @return STATUS_INVALID if it does not fit int64
status bal_chain_bound_load_sum(bal_chain *chain, error_message *err);

/// Load of a stage whose layers weigh this much together: time_factor * weight, rounded half up,
/// + fixed. For a stage that owns a layer at all.
int64_t bal_chain_load_of_weight(const bal_chain *chain, int stage, int64_t weight);

/// Load of a stage that owns layers [begin, end): time_factor * weights, rounded half up, + fixed;
/// with transfer_ns also the wait for the forward message over the cut before it, of layer
/// begin - 1, and for the gradient message over the cut after it, of the size of the output of
/// layer end - 1. The first layer waits for nobody in front, the last for nobody after; a message
/// that passes through empty stages is paid once. 0 for an empty stage.
int64_t bal_chain_load(const bal_chain *chain, int stage, int begin, int end);

/// The same without the transfers: never shrinks when the run of layers grows.
int64_t bal_chain_own_load(const bal_chain *chain, int stage, int begin, int end);

/// Memory of a stage that owns layers [begin, end): sum of state_bytes + inflight * sum of
/// activation_bytes.
int64_t bal_chain_memory_bytes(const bal_chain *chain, int stage, int begin, int end);

/// Whether layers [begin, end) stay within the stage's memory cap. True for an empty stage.
bool bal_chain_fits(const bal_chain *chain, int stage, int begin, int end);

/// Whether the rules allow the stage to own no layer.
bool bal_chain_may_be_empty(const bal_chain *chain, int stage);

/// The largest sum of weights that keeps a stage's own load within load; -1 if not even 0 does.
int64_t bal_chain_weight_within(const bal_chain *chain, int stage, int64_t load);

/// Loads of the stages of a partition.
///
/// @param first_layer [stage_count + 1]
/// @param stage_load  [stage_count] out
void bal_chain_loads(const bal_chain *chain, const int *first_layer, int64_t *stage_load);

/// Ranks that hold the stages: stage_count / chunk_count.
int bal_chain_rank_count(const bal_chain *chain);

/// The stage that is a chunk of a rank.
int bal_chain_stage_of(const bal_chain *chain, int rank, int chunk);

/// The load of a rank of a partition, all its chunks together, and the largest of all ranks.
int64_t bal_chain_rank_load(const bal_chain *chain, const int *first_layer, int rank);
int64_t bal_chain_largest_load(const bal_chain *chain, const int *first_layer);

/// Sums from the end of the chain: of sums from its begin, [count + 1] both.
const int64_t *bal_chain_turned(const int64_t *before, int count, arena *memory);

/// The most that a rank holds under a partition, all its chunks together.
///
/// @param first_layer [stage_count + 1]
int64_t bal_chain_rank_memory_bytes(const bal_chain *chain, int rank, const int *first_layer);

/// Checks a partition against the rules of the chain: every layer once and in order, no stage
/// empty that may not be, pinned layers in place, memory of stages and ranks within the caps.
///
/// @return STATUS_INFEASIBLE naming the stage or the rank, and the rule it breaks.
status bal_chain_check(const bal_chain *chain, const int *first_layer, error_message *err);

/// The largest load of a rank, all its chunks together, is never below this, whichever rank owns
/// which layer, in any order and with empty ranks: the smallest load at which the ranks together
/// could take all weights if layers were divisible, and at which every layer alone fits the load of
/// some rank. With equal ranks that is max(ceil(total / ranks), largest layer). Memory caps and
/// transfers are not counted.
///
/// Time O(log(largest load) * stage_count + layer_count * stage_count).
int64_t bal_assignment_lower_bound(const bal_chain *chain);
