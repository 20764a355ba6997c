/// What came of routing: how much longer the ranks that share experts take than if all had as many
/// tokens, per layer and microbatch; drawn here or recorded (expert_counts.h).
#pragma once

#include "balance/costs/machine.h"
#include "base/rng.h"
#include "models/dynamism/dynamism_case.h"
#include "models/experts/expert_counts.h"

#include <stdbool.h>
#include <stdint.h>

// How many tokens a router sends to each expert: drawn, layer by layer and microbatch by
// microbatch. DYNAMISM.md says what is drawn and why.

enum { MODEL_EXPERTS_MAX = 4096 };

/// A router that picks expert_top_k experts per token under an auxiliary loss. Plain numbers.
typedef struct model_routing {
    uint64_t seed;
    int expert_count;   // in [1, MODEL_EXPERTS_MAX]
    int top_k;          // in [1, expert_count]
    int64_t tokens;     // routed together, >= 1; tokens x top_k at most INT32_MAX
    double sigma;       // of the logarithm of an expert's share in the most skewed layer, >= 0
    int skew_layers;    // consecutive layers whose experts have the same shares; 0: as 1
    double persistent;  // share of that variance which stays for the whole training, [0, 1]
    int drift_period;   // iterations after which the rest is drawn anew; 0: it stays as well
    double noise;       // relative standard deviation of an expert's share over microbatches beyond
                        // counting, >= 0
    double correlation; // variance of a count over that of independent tokens, >= 0
} model_routing;

/// The sigma at which busiest and least busy of expert_count experts lie spread_ratio x mean apart
/// on average, to first order: spread_ratio over the mean range of as many normal draws.
double model_routing_sigma(int expert_count, double spread_ratio);

/// Shares of the experts of a layer in an iteration, without the noise of microbatches. Each layer
/// has its own sigma, uniform in [0, sigma].
///
/// @param share [expert_count] out: > 0, sum 1
void model_routing_shares(const model_routing *routing, int layer, int iteration, double *share);

/// Draws the counts of one microbatch around the shares.
///
/// @param counts [expert_count] out: >= 0, each at most tokens, sum exactly tokens x top_k
void model_routing_draw(const model_routing *routing, const double *share, rng *random,
                        int32_t *counts);

/// Tokens that the busiest of rank_count ranks computes, each holding as many consecutive experts.
int64_t model_routing_busiest(const int32_t *counts, int expert_count, int rank_count);

// What came of it.

typedef enum model_router {
    MODEL_ROUTER_TOKEN_CHOICE,
    MODEL_ROUTER_S_BASE,        ///< balanced assignment: all experts alike
    MODEL_ROUTER_EXPERT_CHOICE, ///< all experts alike
    MODEL_ROUTER_NAMED_COUNT,
    MODEL_ROUTER_RECORDED = MODEL_ROUTER_NAMED_COUNT ///< counts from files
} model_router;

/// How much of a layer's cost goes with the tokens that experts take; all 0 in dense layers.
typedef struct model_routed_share {
    double pass[MODEL_PASS_COUNT]; // of its time
    double activation;             // of the bytes kept from F to B
    double gradient;               // of the bytes kept from B to W
} model_routed_share;

/// One microbatch of a layer.
typedef struct model_routing_outcome {
    double straggler;  // tokens of the busiest rank over those of all ranks alike
    double busiest;    // tokens of the busiest expert over those of all experts alike
    int64_t excess_ns; // of two all-to-alls, out and back, over balanced ones
} model_routing_outcome;

/// State of the case moe. Filled by name, then by model_expert_load_carve; a member that is not
/// said to be its own is the caller's.
typedef struct model_expert_load {
    model_case of;
    model_router router;
    model_routing routing;            // of one group of ranks that share experts
    model_expert_counts recorded;     // with MODEL_ROUTER_RECORDED
    int64_t counted_tokens;           // that a recorded row has, k x n; 0: what it has
    int rank_count;                   // of a group
    int group_count;                  // groups that a replica waits for
    const bool *has_experts;          // [layer_count]
    const model_routed_share *routed; // [layer_count]
    const double *token_ratio;        // [layer_count] of the tokens that reach a layer, of those
                                      // that the base computes; NULL: all
    bal_group group;                  // links between its ranks; rank_count below 2: no all-to-all
    int64_t exchange_bytes;           // that a rank sends in a balanced all-to-all
    int backward_ways;                // all-to-alls in B: its 2, and those of F that it makes again
    int step_iterations;              // for which drawn shares stand still; 0: always

    // results of model_expert_load_fill
    int column_count;                  // microbatches, or 1 where all are alike
    model_load held[MODEL_LOAD_COUNT]; // of their own model_load_model; memory by the worst of the
                                       // outcomes at hand
    int64_t *tokens;                   // [layer_count][expert_count] by model_expert_load_tokens

    // its own
    int outcome_count;               // of a layer
    model_routing_outcome *outcomes; // [layer_count][outcome_count] that are at hand
    int32_t *counts;                 // [layer_count][outcome_count][expert_count] of drawn ones,
                                     // summed over groups
    int32_t *group_counts;           // [expert_count]
    double *share;                   // [expert_count]
    int32_t *choice;                 // [column_count] outcome of each microbatch
    int at_hand;                     // step, or sample, of the outcomes; -1: none
} model_expert_load;

/// Makes room for the results, which become the case's loads where they are varied.
void model_expert_load_carve(model_expert_load *load);

/// Whether microbatches or layers differ at all: without expert parallelism and without dropping
/// every layer computes as many tokens as the others, though experts differ.
bool model_expert_load_is_varied(const model_expert_load *load, model_load_model load_model);

/// Whether an iteration differs from the one before it.
bool model_expert_load_changes(const model_expert_load *load, int iteration);

/// Computes the results of an iteration for the load model. Only where the load is varied.
///
/// Drawn: O(layers x microbatches), and O(layers x outcomes x experts) once per step.
void model_expert_load_fill(model_expert_load *load, model_load_model load_model, int iteration,
                            int replica);

/// Sums tokens per expert over the microbatches of an iteration.
void model_expert_load_tokens(model_expert_load *load, int iteration, int replica);
