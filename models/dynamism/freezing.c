#include "models/dynamism/freezing.h"

#include <assert.h>
#include <stdint.h>

static int clamp_iteration(int64_t iteration)
{
    return iteration < MODEL_FREEZE_NEVER ? (int)iteration : MODEL_FREEZE_NEVER;
}

void model_freeze_by_interval(int first, int interval, int max_frozen, int layer_count,
                              int *freeze_at)
{
    assert(first >= 0 && interval >= 1 && max_frozen <= layer_count);
    for (int layer = 0; layer < layer_count; layer++) {
        freeze_at[layer] = layer < max_frozen ? clamp_iteration(first + (int64_t)layer * interval)
                                              : MODEL_FREEZE_NEVER;
    }
}

void model_freeze_by_share(double share, int first, int interval, int max_frozen, int layer_count,
                           int *freeze_at)
{
    assert(share > 0 && share < 1 && interval >= 1 && max_frozen <= layer_count);
    int frozen = 0;
    double learning = 1;
    for (int64_t at = first; frozen < max_frozen; at += interval) {
        learning *= 1 - share;
        const int wanted = layer_count - (int)(layer_count * learning); // rounds up
        const int now = wanted < max_frozen ? wanted : max_frozen;
        while (frozen < now) {
            freeze_at[frozen++] = clamp_iteration(at);
        }
    }
    while (frozen < layer_count) {
        freeze_at[frozen++] = MODEL_FREEZE_NEVER;
    }
}

/// The first multiple of interval that is not before iteration.
static int64_t next_multiple(int64_t iteration, int interval)
{
    return (iteration + interval - 1) / interval * interval;
}

void model_freeze_by_plasticity(const model_plasticity *plasticity, rng *random, int max_frozen,
                                int layer_count, int *freeze_at)
{
    assert(max_frozen <= layer_count);
    const double first = plasticity->first_iteration;
    const double span = (double)plasticity->last_iteration - first;
    int64_t before = 0;
    for (int layer = 0; layer < layer_count; layer++) {
        const double depth = max_frozen > 1 ? (double)layer / (max_frozen - 1) : 0;
        const double vary = 1 + plasticity->jitter * (2 * rng_unit(random) - 1);
        if (layer >= max_frozen) {
            freeze_at[layer] = MODEL_FREEZE_NEVER;
            continue;
        }
        const int64_t wanted = (int64_t)((first + span * depth) * vary + 0.5);
        const int64_t at = next_multiple(wanted, plasticity->evaluation_interval);
        before = at > before ? at : before;
        freeze_at[layer] = clamp_iteration(before);
    }
}

int model_frozen_count(const int *freeze_at, int layer_count, int iteration)
{
    int frozen = 0;
    while (frozen < layer_count && freeze_at[frozen] <= iteration) {
        frozen++;
    }
    return frozen;
}
