/// Walks over all small instances in a fixed order, so that the first one with a property is the
/// smallest.
///
/// The order: fewer stages, then fewer layers, then a smaller largest weight, then weights in
/// dictionary order; among equal layers smaller bytes, then smaller caps, then the start in
/// dictionary order.
#pragma once

#include "analysis/converge/layer_instance.h"

#include <stdbool.h>
#include <stdint.h>

enum { ANA_SEARCH_LAYERS_MAX = 12, ANA_SEARCH_STAGES_MAX = 8 };

/// The box that is searched. All limits are included.
typedef struct ana_search_box {
    int stage_min;
    int stage_max;
    int layer_min;
    int layer_max;
    int weight_min;
    int weight_max;
    bool has_starts; // every contiguous start, stages may be empty; false: one start, even
    bool is_sorted;  // weights ascending only, for what does not look at their order
    bool has_memory; // bytes in [1, bytes_max] and one cap of all ranks in [1, cap_max]
    int bytes_max;
    int cap_max;
} ana_search_box;

/// Plain state in the caller's memory; instance borrows from it.
typedef struct ana_search {
    ana_search_box box;
    ana_layer_instance instance;
    int64_t examined; // instances shown so far
    bool is_new; // layers, stages or memory differ from the instance before: not only the start
    bool has_begun;
    int weight_top; // the largest weight of the layers
    int cap;
    int64_t weight[ANA_SEARCH_LAYERS_MAX];
    int64_t bytes[ANA_SEARCH_LAYERS_MAX];
    int64_t cap_bytes[ANA_SEARCH_STAGES_MAX];
    int first_layer[ANA_SEARCH_STAGES_MAX + 1];
} ana_search;

/// The box must be within the limits above, and not empty (asserted).
void ana_search_begin(ana_search *search, const ana_search_box *box);

/// Shows the next instance; false behind the last.
bool ana_search_next(ana_search *search);

/// What was searched, in words: "2 to 4 stages, 1 to 6 layers of weight 1 to 4, every start".
void ana_search_append(const ana_search_box *box, text_buffer *out);
