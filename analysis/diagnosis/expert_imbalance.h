/// The experts of a run whose tokens were counted: which have most tokens, and how long each layer
/// waits for the rank that holds them. No split of the layers into stages mends that.
#pragma once

#include "analysis/diagnosis/iteration_series.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "models/dynamism/dynamism.h"

enum { ANA_HOT_EXPERTS = 3 };

/// Of a layer, in the mean of the iterations; tokens are those of an iteration.
typedef struct ana_expert_layer {
    int layer;                     // of the model, from its embedding on
    int busiest_rank;              // of those that share the experts: the one that is it most often
    double max_over_mean;          // tokens of the busiest rank over the ranks' mean
    int hot[ANA_HOT_EXPERTS];      // experts with most tokens
    double times[ANA_HOT_EXPERTS]; // over the experts' mean
    int hot_count;
} ana_expert_layer;

typedef struct ana_expert_imbalance {
    int expert_count;               // of a layer; 0: no tokens were counted
    int rank_count;                 // that share them, each as many as the next
    double max_over_mean;           // over the layers with experts
    const ana_expert_layer *layers; // [layer_count] largest max_over_mean first
    int layer_count;
} ana_expert_imbalance;

/// @param dynamism   NULL, or a case without experts: none
/// @param rank_count divides the experts
/// @return what the case returns
///
/// Time O(iterations x layers x experts).
status ana_expert_imbalance_of(model_dynamism *dynamism, const ana_series *series, int rank_count,
                               arena *memory, ana_expert_imbalance *made, error_message *err);

/// Appends a section for people, and the member "experts"; nothing where there are none.
void ana_expert_imbalance_print(const ana_expert_imbalance *of, text_buffer *out);
void ana_expert_imbalance_write(const ana_expert_imbalance *of, json_writer *writer);
