/// The times of layers without their microbatches: what the controller keeps of an iteration.
#pragma once

#include "balance/layer_costs.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// F, B and W of each layer, means over the microbatches of one iteration.
typedef struct bal_layer_times {
    int layer_count;
    int64_t *forward_ns;         // [layer_count]
    int64_t *backward_input_ns;  // [layer_count]
    int64_t *backward_weight_ns; // [layer_count]
} bal_layer_times;

/// Carves the arrays from memory, all 0. STATUS_NO_MEMORY.
void bal_layer_times_init(bal_layer_times *times, int layer_count, arena *memory);

/// Fills the means of costs, each rounded half up.
///
/// @param layers layer_count as at init
/// @return STATUS_INVALID if a time is negative or all of them together do not fit int64 / 4,
///         naming the layer; times are then unspecified.
/// Time O(layers x microbatches).
status bal_layer_times_fill(bal_layer_times *times, const bal_layer_costs *layers,
                            error_message *err);

/// F + B + W of a layer.
int64_t bal_layer_time_ns(const bal_layer_times *times, int layer);

/// Fills out with F, B and W in the proportions of like, so that each layer takes whole_ns. All of
/// a layer is forward where like has none of it.
///
/// @param whole_ns [layer_count], >= 0, rounded to the nearest ns; together within int64
/// @param out      like itself is allowed
void bal_layer_times_split(const double *whole_ns, const bal_layer_times *like,
                           bal_layer_times *out);

/// The costs of like with these times, the same for every microbatch. Bytes and parameters are
/// borrowed from like, times from times.
bal_layer_costs bal_layer_times_costs(const bal_layer_times *times, const bal_layer_costs *like);
