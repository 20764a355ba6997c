#include "balance/partition/bounds.h"

#include <stdbool.h>

/// Whether the ranks could take all weights within load, were layers divisible.
static bool takes_total(const bal_chain *chain, int64_t load)
{
    // The runs of a rank's chunks are rounded apart, by half a unit each.
    const int chunks = chain->chunk_count;
    const bool rounds = chunks > 1 && chain->stage_time_factor_ppb != NULL;
    const int64_t within = rounds && load < INT64_MAX - chunks ? load + chunks : load;
    bal_wide taken = 0;
    for (int rank = 0; rank < bal_chain_rank_count(chain); rank++) {
        int64_t most = 0;
        for (int chunk = 0; chunk < chunks; chunk++) {
            const int stage = bal_chain_stage_of(chain, rank, chunk);
            const int64_t weight = bal_chain_weight_within(chain, stage, within);
            if (weight > most) most = weight;
        }
        taken += most;
    }
    return taken >= chain->weight_before[chain->layer_count];
}

int64_t bal_layer_load_min(const bal_chain *chain, int layer)
{
    int64_t least = INT64_MAX;
    for (int stage = 0; stage < chain->stage_count; stage++) {
        const int64_t load = bal_chain_own_load(chain, stage, layer, layer + 1);
        if (load < least) least = load;
    }
    return least;
}

int64_t bal_divisible_lower_bound(const bal_chain *chain, int64_t least)
{
    int64_t bound = least;
    int64_t high = chain->load_sum_max;
    while (bound < high) {
        const int64_t middle = bound + (high - bound) / 2;
        if (takes_total(chain, middle)) {
            high = middle;
        } else {
            bound = middle + 1;
        }
    }
    return bound;
}

int64_t bal_assignment_lower_bound(const bal_chain *chain)
{
    int64_t largest = 0;
    for (int layer = 0; layer < chain->layer_count; layer++) {
        const int64_t load = bal_layer_load_min(chain, layer);
        if (load > largest) largest = load;
    }
    return bal_divisible_lower_bound(chain, largest);
}
