#include "balance/placed_partition.h"

#include <stddef.h>

int bal_placed_stage_count(const bal_placed_partition *plan)
{
    return plan->rank_count * plan->chunk_count;
}

int bal_placed_machine_rank(const bal_placed_partition *plan, int stage)
{
    const int place =
        bal_rank_of_stage(plan->placement, plan->rank_count, plan->chunk_count, stage, NULL);
    return plan->machine_rank != NULL ? plan->machine_rank[place] : place;
}
