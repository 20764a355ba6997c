#include "balance/layer_lists.h"

static int64_t weight_of(const bal_chain *chain, int layer)
{
    return chain->weight_before[layer + 1] - chain->weight_before[layer];
}

/// Fills the lists with contiguous ranges.
static void fill_ranges(bal_layer_lists *lists, const bal_chain *chain, const int *start)
{
    for (int rank = 0; rank < lists->rank_count; rank++) {
        const int begin = start[rank];
        const int end = start[rank + 1];
        lists->first[rank] = begin < end ? begin : -1;
        lists->count[rank] = end - begin;
        lists->load[rank] = chain->weight_before[end] - chain->weight_before[begin];
        for (int layer = begin; layer < end; layer++) {
            lists->next[layer] = layer + 1 < end ? layer + 1 : -1;
        }
    }
}

/// Fills the lists from owners; a rank's layers stand in model order.
static status fill_owners(bal_layer_lists *lists, const bal_chain *chain, const int *owner,
                          error_message *err)
{
    for (int rank = 0; rank < lists->rank_count; rank++) {
        lists->first[rank] = -1;
    }
    for (int layer = lists->layer_count - 1; layer >= 0; layer--) {
        const int rank = owner[layer];
        if (rank < 0 || rank >= lists->rank_count) {
            return error_set(err, STATUS_INVALID,
                             "current_owner of layer %d: rank %d is outside [0, %d)", layer, rank,
                             lists->rank_count);
        }
        lists->next[layer] = lists->first[rank];
        lists->first[rank] = layer;
        lists->count[rank]++;
        lists->load[rank] += weight_of(chain, layer);
    }
    return STATUS_OK;
}

status bal_layer_lists_init(const bal_problem *problem, const bal_chain *chain, arena *memory,
                            bal_layer_lists *lists, error_message *err)
{
    const size_t ranks = (size_t)chain->stage_count;
    bal_layer_lists made = {.rank_count = chain->stage_count, .layer_count = chain->layer_count};
    int *even = arena_array(memory, ranks + 1, sizeof *even);
    made.next = arena_array(memory, (size_t)chain->layer_count, sizeof *made.next);
    made.first = arena_array(memory, ranks, sizeof *made.first);
    made.count = arena_array(memory, ranks, sizeof *made.count);
    made.load = arena_array(memory, ranks, sizeof *made.load);
    if (problem->current_owner != NULL) {
        TRY(fill_owners(&made, chain, problem->current_owner, err));
        *lists = made;
        return STATUS_OK;
    }
    bal_even_cuts(chain, even);
    const bool has_current =
        problem->current_first_layer != NULL &&
        (problem->current_stage_count == 0 || problem->current_stage_count == chain->stage_count);
    fill_ranges(&made, chain, has_current ? problem->current_first_layer : even);
    *lists = made;
    return STATUS_OK;
}

int bal_layer_lists_lightest(const bal_layer_lists *lists, const bal_chain *chain, int rank,
                             int skip_front, int skip_back, int *layer)
{
    int lightest = -1;
    int index = 0;
    for (int at = lists->first[rank]; at >= 0; at = lists->next[at], index++) {
        if (index < skip_front || index >= lists->count[rank] - skip_back) continue;
        if (lightest >= 0 && weight_of(chain, at) >= weight_of(chain, *layer)) continue;
        lightest = index;
        *layer = at;
    }
    return lightest;
}

int bal_layer_lists_at(const bal_layer_lists *lists, int rank, int index)
{
    int layer = lists->first[rank];
    for (; index > 0; index--) {
        layer = lists->next[layer];
    }
    return layer;
}

void bal_layer_lists_move(bal_layer_lists *lists, const bal_chain *chain, int from, int index,
                          int to, bal_list_end end)
{
    int *link = &lists->first[from];
    for (; index > 0; index--) {
        link = &lists->next[*link];
    }
    const int layer = *link;
    *link = lists->next[layer];
    link = &lists->first[to];
    while (end == BAL_LIST_BACK && *link >= 0) {
        link = &lists->next[*link];
    }
    lists->next[layer] = *link;
    *link = layer;
    lists->count[from]--;
    lists->count[to]++;
    lists->load[from] -= weight_of(chain, layer);
    lists->load[to] += weight_of(chain, layer);
}

void bal_layer_lists_owners(const bal_layer_lists *lists, int *owner)
{
    for (int rank = 0; rank < lists->rank_count; rank++) {
        for (int layer = lists->first[rank]; layer >= 0; layer = lists->next[layer]) {
            owner[layer] = rank;
        }
    }
}

int bal_layer_lists_least_loaded(const bal_layer_lists *lists)
{
    int least = 0;
    for (int rank = 1; rank < lists->rank_count; rank++) {
        if (lists->load[rank] < lists->load[least]) least = rank;
    }
    return least;
}
