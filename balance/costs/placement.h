/// Which chunk of which rank is which stage, and a partition with the ranks that its stages are on.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// Where the chunks of a rank stand in model order, with P ranks and V chunks per rank.
typedef enum bal_placement {
    BAL_PLACEMENT_LOOP,          ///< rank r owns stages r, P + r, 2P + r, ...
    BAL_PLACEMENT_V,             ///< V = 2: rank r owns stages r and 2P - 1 - r
    BAL_PLACEMENT_BIDIRECTIONAL, ///< V = 2: the same stages, but two pipelines of P stages, each
                                 ///< with a copy of the model: stages 0 to P - 1 go down the ranks
                                 ///< and take half of the microbatches, stages P to 2P - 1 (P + s
                                 ///< is the copy of s) go up and take the other half
} bal_placement;

/// "interleaved", "v" or "bidirectional", as files spell it. Static storage.
const char *bal_placement_name(bal_placement placement);

/// The placement that files spell so. False, and placement untouched, for any other name.
bool bal_placement_find(const char *name, bal_placement *placement);

/// The stage, in model order, of a chunk of a rank.
int bal_stage_of(bal_placement placement, int rank_count, int chunk_count, int rank, int chunk);

/// The rank that owns a stage, and with chunk != NULL which of its chunks it is.
int bal_rank_of_stage(bal_placement placement, int rank_count, int chunk_count, int stage,
                      int *chunk);

/// The stage that takes the output of a stage, and the one that takes the gradient of its input;
/// -1: none, at the ends of a pipeline.
int bal_stage_behind(bal_placement placement, int rank_count, int chunk_count, int stage);
int bal_stage_before(bal_placement placement, int rank_count, int stage);

/// Whether a placement can have so many chunks per rank.
bool bal_placement_takes(bal_placement placement, int chunk_count);

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

/// The stage that is a chunk of a place, and the place that holds a stage.
int bal_placed_stage(const bal_placed_partition *plan, int place, int chunk);
int bal_placed_place(const bal_placed_partition *plan, int stage);

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
