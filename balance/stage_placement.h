/// Which chunk of which rank is which stage.
#pragma once

#include <stdbool.h>

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
