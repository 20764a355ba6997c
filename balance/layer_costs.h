/// What the layers of a model cost in one iteration: the input of every decision and every replay.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Times are of one microbatch. The arrays are borrowed: whoever fills the struct says for how
/// long.
typedef struct bal_layer_costs {
    int layer_count;
    int microbatch_count; // columns of the times: M, or 1 where one cost holds for every microbatch
    bool has_split;       // false: backward_input_ns is the full backward, backward_weight_ns all 0
    bool embedding;       // layer 0 is the embedding, pinned to the first stage
    bool head;            // the last layer is the LM head, pinned to the last stage
    const int64_t *forward_ns;         // [layer_count][microbatch_count], >= 0
    const int64_t *backward_input_ns;  // [layer_count][microbatch_count], >= 0
    const int64_t *backward_weight_ns; // [layer_count][microbatch_count], >= 0
    const int64_t *parameters;         // [layer_count] or NULL: not known
    const int64_t *state_bytes;        // [layer_count] or NULL: weights, gradients, optimizer
    const int64_t *activation_bytes;   // [layer_count] or NULL: held from F to B, one microbatch
    const int64_t *gradient_bytes;     // [layer_count] or NULL: of them and of the output
                                       // gradients, held from B to W, one microbatch
    const int64_t *message_bytes;      // [layer_count] or NULL: output sent to the next layer
    const int64_t *reduction_ns;       // [layer_count] or NULL: to reduce the layer's gradients
                                       // between replicas, once per iteration
} bal_layer_costs;

/// Arrays of layer costs; the times stand first.
enum { BAL_COST_ARRAY_COUNT = 9, BAL_COST_TIMES_COUNT = 3 };

/// Lists where the arrays of costs are, in the order of the struct, so that code which treats all
/// of them alike names none.
///
/// @param arrays [BAL_COST_ARRAY_COUNT] out: pointers into costs; the first BAL_COST_TIMES_COUNT
///               are the times
void bal_layer_costs_list(bal_layer_costs *costs, const int64_t **arrays[BAL_COST_ARRAY_COUNT]);

/// Bytes of the array with this number in the list, whether it is there or not.
size_t bal_layer_costs_array_bytes(const bal_layer_costs *costs, int array);
