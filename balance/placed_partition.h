/// A partition with the ranks that its stages are on.
#pragma once

#include "balance/stage_placement.h"

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
