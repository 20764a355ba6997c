#include "balance/control/iteration_estimate.h"

#include "balance/partition/chain.h"

#include <string.h>

void bal_layer_sums_init(bal_layer_sums *sums, int layer_count, arena *memory)
{
    const size_t entries = (size_t)layer_count + 1;
    int64_t *both = arena_array(memory, 2 * entries, sizeof *both);
    *sums = (bal_layer_sums){
        .layer_count = layer_count, .forward_before = both, .time_before = both + entries};
}

void bal_layer_sums_fill(bal_layer_sums *sums, const bal_layer_times *times)
{
    for (int layer = 0; layer < sums->layer_count; layer++) {
        sums->forward_before[layer + 1] = sums->forward_before[layer] + times->forward_ns[layer];
        sums->time_before[layer + 1] = sums->time_before[layer] + bal_layer_time_ns(times, layer);
    }
}

/// Time of the layers of one chunk of a place.
static int64_t chunk_ns(const int64_t *before, const bal_placed_partition *plan, int place,
                        int chunk)
{
    const int stage = bal_placed_stage(plan, place, chunk);
    return before[plan->first_layer[stage + 1]] - before[plan->first_layer[stage]];
}

static int64_t saturated(bal_wide ns)
{
    return ns > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)ns;
}

/// All F, then all backwards: two flow shops, one after the other.
static int64_t gpipe_ns(const bal_layer_sums *sums, const bal_placed_partition *plan,
                        int microbatch_count)
{
    bal_wide sum = 0;
    int64_t forward_max = 0;
    int64_t backward_max = 0;
    for (int place = 0; place < plan->rank_count; place++) {
        const int64_t forward = chunk_ns(sums->forward_before, plan, place, 0);
        const int64_t whole = chunk_ns(sums->time_before, plan, place, 0);
        sum += whole;
        if (forward > forward_max) forward_max = forward;
        if (whole - forward > backward_max) backward_max = whole - forward;
    }
    return saturated(sum + (bal_wide)(microbatch_count - 1) * (forward_max + backward_max));
}

int64_t bal_iteration_estimate_ns(const bal_layer_sums *sums, const bal_placed_partition *plan,
                                  const bal_schedule_family *family, int microbatch_count)
{
    if (strcmp(family->name, "gpipe") == 0) {
        return gpipe_ns(sums, plan, microbatch_count);
    }
    const int64_t *filling = family->has_split ? sums->forward_before : sums->time_before;
    bal_wide before = 0;
    bal_wide largest = 0;
    for (int place = 0; place < plan->rank_count; place++) {
        bal_wide work = 0;
        for (int chunk = 0; chunk < plan->chunk_count; chunk++) {
            work += chunk_ns(sums->time_before, plan, place, chunk);
        }
        const bal_wide ns = before + work * microbatch_count;
        if (ns > largest) largest = ns;
        before += chunk_ns(filling, plan, place, 0);
    }
    return saturated(largest);
}
