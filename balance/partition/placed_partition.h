/// A partition with the ranks that its stages are on.
#pragma once

#include "balance/stage_placement.h"
#include "base/status.h"

#include <stdint.h>

/// The pipeline has rank_count places, in order; with re-packing or relabelling the rank of the
/// machine at a place need not be its number.
typedef struct bal_placed_partition {
    const int *first_layer; // [rank_count * chunk_count + 1] model order
    int rank_count;         // places of the pipeline
    int chunk_count;
    bal_placement placement;
    const int *machine_rank; // [rank_count] rank of the machine at each place, all different; NULL:
                             // place p is rank p
} bal_placed_partition;

/// Stages of the pipeline: places times chunks.
int bal_placed_stage_count(const bal_placed_partition *plan);

/// The rank of the machine that holds a stage.
int bal_placed_machine_rank(const bal_placed_partition *plan, int stage);

/// Sum over the layers that a place holds; 0 where values is NULL.
///
/// @param values [layer_count] or NULL, of a sum that fits int64
int64_t bal_placed_sum(const bal_placed_partition *plan, int place, const int64_t *values);

/// Checks that a partition covers layers 0 to layer_count in order on ranks that there are. That no
/// two places share a rank is not checked.
///
/// @param what               names it in the message, for example "the old plan"
/// @param machine_rank_count ranks of the machine; 0: not known, any rank >= 0 will do
/// @return STATUS_INVALID naming the cut, the count or the rank.
status bal_placed_check(const bal_placed_partition *plan, int layer_count, int machine_rank_count,
                        const char *what, error_message *err);

/// The rank of the machine that holds each layer.
///
/// @param owner [layer_count] out
void bal_placed_owners(const bal_placed_partition *plan, int *owner);
