#include "balance/costs/placement.h"

#include "base/text.h"

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
    const int found = text_find(name, names, PLACEMENT_COUNT);
    if (found == PLACEMENT_COUNT) return false;
    *placement = (bal_placement)found;
    return true;
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

int bal_placed_stage_count(const bal_placed_partition *plan)
{
    return plan->rank_count * plan->chunk_count;
}

int bal_placed_stage(const bal_placed_partition *plan, int place, int chunk)
{
    return bal_stage_of(plan->placement, plan->rank_count, plan->chunk_count, place, chunk);
}

int bal_placed_place(const bal_placed_partition *plan, int stage)
{
    return bal_rank_of_stage(plan->placement, plan->rank_count, plan->chunk_count, stage, NULL);
}

int bal_placed_machine_rank(const bal_placed_partition *plan, int stage)
{
    const int place = bal_placed_place(plan, stage);
    return plan->machine_rank != NULL ? plan->machine_rank[place] : place;
}

int64_t bal_placed_sum(const bal_placed_partition *plan, int place, const int64_t *values)
{
    int64_t sum = 0;
    for (int chunk = 0; values != NULL && chunk < plan->chunk_count; chunk++) {
        const int stage = bal_placed_stage(plan, place, chunk);
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            sum += values[layer];
        }
    }
    return sum;
}

status bal_placed_check(const bal_placed_partition *plan, int layer_count, int machine_rank_count,
                        const char *what, error_message *err)
{
    if (plan->rank_count < 1 || plan->chunk_count < 1) {
        return error_set(err, STATUS_INVALID, "%s has %d ranks of %d chunks", what,
                         plan->rank_count, plan->chunk_count);
    }
    const int stages = bal_placed_stage_count(plan);
    if (plan->first_layer[0] != 0 || plan->first_layer[stages] != layer_count) {
        return error_set(err, STATUS_INVALID, "%s runs from layer %d to %d, not 0 to %d", what,
                         plan->first_layer[0], plan->first_layer[stages], layer_count);
    }
    for (int stage = 0; stage < stages; stage++) {
        if (plan->first_layer[stage] <= plan->first_layer[stage + 1]) continue;
        return error_set(err, STATUS_INVALID, "%s: stage %d ends before it begins: [%d, %d)", what,
                         stage, plan->first_layer[stage], plan->first_layer[stage + 1]);
    }
    if (machine_rank_count > 0 && plan->rank_count > machine_rank_count) {
        return error_set(err, STATUS_INVALID, "%s has %d ranks, the machine %d", what,
                         plan->rank_count, machine_rank_count);
    }
    for (int place = 0; plan->machine_rank != NULL && place < plan->rank_count; place++) {
        const int rank = plan->machine_rank[place];
        if (rank >= 0 && (machine_rank_count == 0 || rank < machine_rank_count)) continue;
        return error_set(err, STATUS_INVALID, "%s: place %d is on rank %d of a machine of %d", what,
                         place, rank, machine_rank_count);
    }
    return STATUS_OK;
}

void bal_placed_owners(const bal_placed_partition *plan, int *owner)
{
    for (int stage = 0; stage < bal_placed_stage_count(plan); stage++) {
        const int rank = bal_placed_machine_rank(plan, stage);
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            owner[layer] = rank;
        }
    }
}
