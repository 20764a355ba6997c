#include "balance/stage_placement.h"

#include <stddef.h>
#include <string.h>

static const char *const names[] = {"interleaved", "v", "bidirectional"};
enum { PLACEMENT_COUNT = sizeof names / sizeof names[0] };

const char *bal_placement_name(bal_placement placement)
{
    return names[placement];
}

bool bal_placement_find(const char *name, bal_placement *placement)
{
    for (int index = 0; index < PLACEMENT_COUNT; index++) {
        if (strcmp(name, names[index]) != 0) continue;
        *placement = (bal_placement)index;
        return true;
    }
    return false;
}

int bal_stage_of(bal_placement placement, int rank_count, int chunk_count, int rank, int chunk)
{
    if (placement != BAL_PLACEMENT_LOOP && chunk == 1) return rank_count * chunk_count - 1 - rank;
    return chunk * rank_count + rank;
}

int bal_rank_of_stage(bal_placement placement, int rank_count, int chunk_count, int stage,
                      int *chunk)
{
    const int row = stage / rank_count;
    if (chunk != NULL) *chunk = row;
    if (placement != BAL_PLACEMENT_LOOP && row == 1) return rank_count * chunk_count - 1 - stage;
    return stage % rank_count;
}

int bal_stage_behind(bal_placement placement, int rank_count, int chunk_count, int stage)
{
    const bool ends_copy = placement == BAL_PLACEMENT_BIDIRECTIONAL && stage + 1 == rank_count;
    return ends_copy || stage + 1 == rank_count * chunk_count ? -1 : stage + 1;
}

int bal_stage_before(bal_placement placement, int rank_count, int stage)
{
    return placement == BAL_PLACEMENT_BIDIRECTIONAL && stage == rank_count ? -1 : stage - 1;
}

bool bal_placement_takes(bal_placement placement, int chunk_count)
{
    return placement == BAL_PLACEMENT_LOOP || chunk_count == 2;
}
