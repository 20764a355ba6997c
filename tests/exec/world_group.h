/// The group of all ranks of a world.
#pragma once

#include "exec/transport/group.h"

/// @param ranks    [rank_count of the world] out, borrowed by the group
/// @param sequence out, borrowed by the group
static inline exec_group world_group(exec_endpoint *endpoint, int *ranks, int *sequence)
{
    for (int rank = 0; rank < endpoint->rank_count; rank++) {
        ranks[rank] = rank;
    }
    *sequence = 0;
    return (exec_group){.endpoint = endpoint,
                        .rank = ranks,
                        .rank_count = endpoint->rank_count,
                        .self = endpoint->rank,
                        .sequence = sequence};
}
