/// The largest weights of a model whose layers lie on several ranks: which of them stay when it is
/// pruned by magnitude.
///
/// Weights are ordered by (magnitude falling, layer, index), which has no ties, so the choice does
/// not depend on where layers lie. A weight that is not a number counts as larger than all numbers.
#pragma once

#include "base/status.h"
#include "exec/transport/group.h"

#include <stdint.h>

/// Weights of one layer.
typedef struct exec_weights {
    int layer;           // model order
    int64_t count;       // 0 where the layer takes no part
    const float *weight; // [count] host memory
    uint8_t *keep;       // [count] in: 0 where pruned before, which takes no part any more;
                         // out: 1 where the weight stays, else 0
} exec_weights;

/// Keeps the kept_count largest of all layers, or all there are, by their threshold: each rank
/// counts the bits of its magnitudes in classes, the group sums the counts, and the class in which
/// the threshold lies is divided again. 3 sums of at most 16 KiB and one of a number per layer,
/// whatever the size of the model; O(weights).
///
/// Collective over the group.
///
/// @param held        [held_count] the layers of the caller, in model order
/// @param layer_count of the model
/// @param kept_count  >= 0, the same on all ranks
/// @return STATUS_NO_MEMORY, or the failure of a message; keep is unspecified then
status exec_keep_by_threshold(const exec_weights *held, int held_count, int layer_count,
                              int64_t kept_count, const exec_group *group, error_message *err);
