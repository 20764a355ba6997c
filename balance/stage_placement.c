#include "balance/stage_placement.h"

#include <stddef.h>
#include <string.h>

const char *bal_placement_name(bal_placement placement)
{
    return placement == BAL_PLACEMENT_V ? "v" : "interleaved";
}

bool bal_placement_find(const char *name, bal_placement *placement)
{
    const bool is_v = strcmp(name, "v") == 0;
    if (!is_v && strcmp(name, "interleaved") != 0) return false;
    *placement = is_v ? BAL_PLACEMENT_V : BAL_PLACEMENT_LOOP;
    return true;
}

int bal_stage_of(bal_placement placement, int rank_count, int chunk_count, int rank, int chunk)
{
    if (placement == BAL_PLACEMENT_V && chunk == 1) return rank_count * chunk_count - 1 - rank;
    return chunk * rank_count + rank;
}

int bal_rank_of_stage(bal_placement placement, int rank_count, int chunk_count, int stage,
                      int *chunk)
{
    const int row = stage / rank_count;
    if (chunk != NULL) *chunk = row;
    if (placement == BAL_PLACEMENT_V && row == 1) return rank_count * chunk_count - 1 - stage;
    return stage % rank_count;
}
