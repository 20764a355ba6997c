/// How many tokens a router sends to each expert: drawn, layer by layer and microbatch by
/// microbatch. DYNAMISM.md says what is drawn and why.
#pragma once

#include "base/rng.h"

#include <stdint.h>

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

/// The same number for every expert, the first ones one more where it does not divide.
void model_routing_balanced(const model_routing *routing, int32_t *counts);

/// Tokens that the busiest of rank_count ranks computes, each holding as many consecutive experts.
int64_t model_routing_busiest(const int32_t *counts, int expert_count, int rank_count);
