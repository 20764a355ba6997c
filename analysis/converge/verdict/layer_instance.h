/// A balancing question small enough to print: layers, where they start, what ranks may hold; and a
/// walk over all of them in a fixed order, so that the first one with a property is the smallest.
///
/// The order: fewer stages, then fewer layers, then a smaller largest weight, then weights in
/// dictionary order; among equal layers smaller bytes, then smaller caps, then the start in
/// dictionary order.
#pragma once

#include "balance/partition/balancer.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// Arrays are borrowed; whoever fills the struct says for how long.
typedef struct ana_layer_instance {
    int layer_count;
    int stage_count;
    const int64_t *weight;    // [layer_count] time of a layer, in any unit
    const int64_t *bytes;     // [layer_count] or NULL: memory plays no part
    const int64_t *cap_bytes; // [stage_count] or NULL: no caps
    const int *first_layer;   // [stage_count + 1] where the layers start; stages may be empty
} ana_layer_instance;

/// Ascending, in place.
void ana_sort_loads(int64_t *load, size_t count);

/// Sum over unordered pairs of ranks of the difference of their loads: the potential of the
/// DynMo paper's Lemma 2. Exact below 2^53.
///
/// @param load [count], sorted ascending by the call
double ana_phi(int64_t *load, int count);

/// The question as the balancers take it. Borrows what the instance borrows.
bal_problem ana_instance_problem(const ana_layer_instance *instance);

/// Loads of the stages where the layers start, or their bytes. @param sum [stage_count] out
void ana_instance_sum(const ana_layer_instance *instance, const int64_t *values, int64_t *sum);

/// Runs a balancer, by name, from the start of the instance. The bottleneck is the largest load.
///
/// @return as bal_balance
status ana_instance_balance(const char *balancer, const ana_layer_instance *instance, arena *memory,
                            bal_answer *answer, error_message *err);

/// A copy whose arrays are from memory.
ana_layer_instance ana_instance_copy(const ana_layer_instance *instance, arena *memory);

/// "[3 3 | 1 1 1 | 1 1 1]", with caps "[1:2 2:0 | 1:2] (weight:bytes), caps 3 3"; runs of equal
/// layers are shortened to "1 x 64" where the whole would not fit a line.
void ana_instance_append(const ana_layer_instance *instance, text_buffer *out);

/// An object with stages, weights, first_layer, and bytes and cap_bytes where there are any.
void ana_instance_write(const ana_layer_instance *instance, json_writer *writer);

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
    bool has_memory; // bytes in [1, bytes_max] and one cap of all ranks in [1, cap_max]
    int bytes_max;
    int cap_max;
} ana_search_box;

/// Plain state in the caller's memory; instance borrows from it.
typedef struct ana_search {
    ana_search_box box;
    ana_layer_instance instance;
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

/// Shows the next instance; false after the last.
bool ana_search_next(ana_search *search);

/// What was searched, in words: "2 to 4 stages, 1 to 6 layers of weight 1 to 4, every start".
const char *ana_search_words(const ana_search_box *box, arena *memory);
