/// Which chunk of which rank is which stage.
#pragma once

#include <stdbool.h>

/// Where the chunks of a rank stand in model order, with P ranks and V chunks per rank.
typedef enum bal_placement {
    BAL_PLACEMENT_LOOP, ///< rank r owns stages r, P + r, 2P + r, ...
    BAL_PLACEMENT_V,    ///< V = 2: rank r owns stages r and 2P - 1 - r
} bal_placement;

/// "interleaved" or "v", as files spell it. Static storage.
const char *bal_placement_name(bal_placement placement);

/// The placement that files spell so. False, and placement untouched, for any other name.
bool bal_placement_find(const char *name, bal_placement *placement);

/// The stage, in model order, of a chunk of a rank.
int bal_stage_of(bal_placement placement, int rank_count, int chunk_count, int rank, int chunk);

/// The rank that owns a stage, and with chunk != NULL which of its chunks it is.
int bal_rank_of_stage(bal_placement placement, int rank_count, int chunk_count, int stage,
                      int *chunk);
