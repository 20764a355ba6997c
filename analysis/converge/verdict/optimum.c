#include "analysis/converge/verdict/optimum.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NO_RANK = -1 };

typedef struct weighed_layer {
    int64_t weight;
    int64_t bytes;
} weighed_layer;

typedef struct branching {
    const ana_layer_instance *instance;
    weighed_layer layer[ANA_ASSIGNED_LAYERS_MAX]; // heaviest first
    int64_t load[ANA_SEARCH_STAGES_MAX];
    int64_t bytes[ANA_SEARCH_STAGES_MAX];
    int64_t low;  // no assignment has a smaller largest load
    int64_t best; // INT64_MAX: nothing found yet
    int64_t nodes_left;
} branching;

static int by_weight(const void *left, const void *right)
{
    const weighed_layer *a = left;
    const weighed_layer *b = right;
    return (a->weight < b->weight) - (a->weight > b->weight);
}

static branching begin(const ana_layer_instance *instance, int64_t node_max)
{
    branching made = {.instance = instance, .best = INT64_MAX, .nodes_left = node_max};
    int64_t total = 0;
    assert(instance->layer_count <= ANA_ASSIGNED_LAYERS_MAX);
    assert(instance->stage_count <= ANA_SEARCH_STAGES_MAX);
    for (int layer = 0; layer < instance->layer_count; layer++) {
        const int64_t weight = instance->weight[layer];
        made.layer[layer] =
            (weighed_layer){weight, instance->bytes != NULL ? instance->bytes[layer] : 0};
        total += weight;
        if (weight > made.low) made.low = weight;
    }
    const int64_t mean = total / instance->stage_count + (total % instance->stage_count > 0);
    if (mean > made.low) made.low = mean;
    qsort(made.layer, (size_t)instance->layer_count, sizeof *made.layer, by_weight);
    return made;
}

/// The least loaded rank with room for a layer that is not among those tried, a bit per rank.
static int next_rank(const branching *search, int depth, unsigned tried)
{
    const int64_t *cap = search->instance->cap_bytes;
    int least = NO_RANK;
    for (int rank = 0; rank < search->instance->stage_count; rank++) {
        if ((tried >> rank & 1) != 0) continue;
        if (cap != NULL && search->bytes[rank] + search->layer[depth].bytes > cap[rank]) continue;
        if (least == NO_RANK || search->load[rank] < search->load[least]) least = rank;
    }
    return least;
}

/// Places the layers from depth on in every way that can beat the best; largest: of the loads.
static void branch(branching *search, int depth, int64_t largest)
{
    const weighed_layer *layer = &search->layer[depth];
    unsigned tried = 0;
    if (depth == search->instance->layer_count) {
        search->best = largest;
        return;
    }
    for (;;) {
        const int rank = next_rank(search, depth, tried);
        if (rank == NO_RANK || search->load[rank] + layer->weight >= search->best) return;
        if (search->best <= search->low || search->nodes_left == 0) return;
        search->nodes_left--;
        search->load[rank] += layer->weight;
        search->bytes[rank] += layer->bytes;
        branch(search, depth + 1, search->load[rank] > largest ? search->load[rank] : largest);
        search->load[rank] -= layer->weight;
        search->bytes[rank] -= layer->bytes;
        for (int twin = 0; twin < search->instance->stage_count; twin++) {
            const int64_t *cap = search->instance->cap_bytes;
            if (search->load[twin] == search->load[rank] &&
                search->bytes[twin] == search->bytes[rank] &&
                (cap == NULL || cap[twin] == cap[rank])) {
                tried |= 1U << twin; // in the same state: trying it is vain
            }
        }
    }
}

int64_t ana_assignment_best(const ana_layer_instance *instance, int64_t node_max)
{
    branching search = begin(instance, node_max);
    branch(&search, 0, 0);
    const bool is_exact = search.nodes_left > 0 || search.best == search.low;
    return is_exact && search.best < INT64_MAX ? search.best : -1;
}

double ana_assignment_phi_min(const ana_layer_instance *instance)
{
    int owner[ANA_SEARCH_LAYERS_MAX] = {0};
    const int layers = instance->layer_count;
    const int ranks = instance->stage_count;
    assert(layers <= ANA_SEARCH_LAYERS_MAX && ranks <= ANA_SEARCH_STAGES_MAX);
    double least = -1;
    int place = 0;
    while (place >= 0) {
        int64_t load[ANA_SEARCH_STAGES_MAX] = {0};
        for (int layer = 0; layer < layers; layer++) {
            load[owner[layer]] += instance->weight[layer];
        }
        const double phi = ana_phi(load, ranks);
        if (least < 0 || phi < least) least = phi;
        for (place = layers - 1; place >= 0 && owner[place] == ranks - 1; place--) {
            owner[place] = 0;
        }
        if (place >= 0) owner[place]++;
    }
    return least;
}

/// The next cuts in dictionary order with no stage empty; false after the last.
static bool next_cuts(int *first, int layer_count, int stage_count)
{
    for (int stage = stage_count - 1; stage > 0; stage--) {
        if (first[stage] == layer_count - (stage_count - stage)) continue;
        first[stage]++;
        for (int after = stage + 1; after < stage_count; after++) {
            first[after] = first[after - 1] + 1;
        }
        return true;
    }
    return false;
}

static void extremes(const int64_t *weight, const int *first, int stage_count, int64_t *least,
                     int64_t *most)
{
    *least = INT64_MAX;
    *most = 0;
    for (int stage = 0; stage < stage_count; stage++) {
        int64_t load = 0;
        for (int layer = first[stage]; layer < first[stage + 1]; layer++) {
            load += weight[layer];
        }
        if (load < *least) *least = load;
        if (load > *most) *most = load;
    }
}

/// Whether the plan is the first with the smallest range and, of those, the smallest largest load.
static bool take_plan(ana_range_plans *plans, int64_t range, int64_t load)
{
    if (load < plans->optimum || (load == plans->optimum && range > plans->optimum_range)) {
        plans->optimum = load;
        plans->optimum_range = range;
    }
    if (range > plans->range) return false;
    if (range < plans->range) {
        plans->range = range;
        plans->range_load_min = load;
        return true;
    }
    if (load >= plans->range_load_min) return false;
    plans->range_load_min = load;
    return true;
}

ana_range_plans ana_range_enumerate(const int64_t *weight, int layer_count, int stage_count,
                                    int *first)
{
    int cuts[ANA_SEARCH_STAGES_MAX + 1];
    assert(stage_count >= 1 && stage_count <= layer_count && stage_count <= ANA_SEARCH_STAGES_MAX);
    ana_range_plans plans = {.range = INT64_MAX, .optimum = INT64_MAX};
    for (int stage = 0; stage < stage_count; stage++) {
        cuts[stage] = stage;
    }
    cuts[stage_count] = layer_count;
    do {
        int64_t least = 0;
        int64_t most = 0;
        extremes(weight, cuts, stage_count, &least, &most);
        if (take_plan(&plans, most - least, most)) {
            memcpy(first, cuts, ((size_t)stage_count + 1) * sizeof *cuts);
        }
    } while (next_cuts(cuts, layer_count, stage_count));
    return plans;
}
