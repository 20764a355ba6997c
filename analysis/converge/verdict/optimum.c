#include "analysis/converge/verdict/optimum.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NO_RANK = -1 };

typedef struct weighed_layer {
    int64_t weight;
    int64_t bytes;
    int layer;
} weighed_layer;

typedef struct branching {
    int layer_count;
    int rank_count;
    const int64_t *cap;   // [rank_count] or NULL
    weighed_layer *layer; // [layer_count] heaviest first
    int *rank;            // [layer_count] where it is now, or NO_RANK
    int64_t *load;        // [rank_count]
    int64_t *bytes;       // [rank_count]
    int64_t low;
    int64_t best; // INT64_MAX: nothing found yet
    int64_t nodes_left;
} branching;

static int compare_layers(const void *left, const void *right)
{
    const weighed_layer *a = left;
    const weighed_layer *b = right;
    if (a->weight != b->weight) return a->weight < b->weight ? 1 : -1;
    return a->layer - b->layer;
}

static void branching_init(const ana_layer_instance *instance, arena *memory, branching *out)
{
    const size_t layers = (size_t)instance->layer_count;
    const size_t ranks = (size_t)instance->stage_count;
    int64_t total = 0;
    branching made = {.layer_count = instance->layer_count,
                      .rank_count = instance->stage_count,
                      .cap = instance->cap_bytes,
                      .best = INT64_MAX};
    made.layer = arena_array(memory, layers, sizeof *made.layer);
    made.rank = arena_array(memory, layers, sizeof *made.rank);
    made.load = arena_array(memory, ranks, sizeof *made.load);
    made.bytes = arena_array(memory, ranks, sizeof *made.bytes);
    for (int layer = 0; layer < instance->layer_count; layer++) {
        const int64_t weight = instance->weight[layer];
        const int64_t bytes = instance->bytes != NULL ? instance->bytes[layer] : 0;
        made.layer[layer] = (weighed_layer){weight, bytes, layer};
        made.rank[layer] = NO_RANK;
        total += weight;
        if (weight > made.low) made.low = weight;
    }
    const int64_t mean = total / made.rank_count + (total % made.rank_count > 0);
    if (mean > made.low) made.low = mean;
    qsort(made.layer, layers, sizeof *made.layer, compare_layers);
    *out = made;
}

static void put(branching *search, int depth, int rank)
{
    search->load[rank] += search->layer[depth].weight;
    search->bytes[rank] += search->layer[depth].bytes;
    search->rank[depth] = rank;
}

static void take(branching *search, int depth)
{
    const int rank = search->rank[depth];
    search->load[rank] -= search->layer[depth].weight;
    search->bytes[rank] -= search->layer[depth].bytes;
    search->rank[depth] = NO_RANK;
}

static bool has_room(const branching *search, int depth, int rank)
{
    return search->cap == NULL ||
           search->bytes[rank] + search->layer[depth].bytes <= search->cap[rank];
}

/// Longest processing time first: each layer to the least loaded rank that has room for it. What it
/// finds is the best so far; where a layer finds no room, nothing is.
static void find_greedy(branching *search)
{
    int64_t largest = 0;
    int depth = 0;
    for (; depth < search->layer_count; depth++) {
        int least = NO_RANK;
        for (int rank = 0; rank < search->rank_count; rank++) {
            if (!has_room(search, depth, rank)) continue;
            if (least == NO_RANK || search->load[rank] < search->load[least]) least = rank;
        }
        if (least == NO_RANK) break;
        put(search, depth, least);
        if (search->load[least] > largest) largest = search->load[least];
    }
    if (depth == search->layer_count) search->best = largest;
    while (depth > 0) {
        take(search, --depth);
    }
}

/// Whether a rank with a smaller number is in the same state, so that trying this one is vain.
static bool is_twin(const branching *search, int rank)
{
    for (int before = 0; before < rank; before++) {
        if (search->load[before] == search->load[rank] &&
            search->bytes[before] == search->bytes[rank] &&
            (search->cap == NULL || search->cap[before] == search->cap[rank])) {
            return true;
        }
    }
    return false;
}

/// The next rank after from that could take the layer and still beat the best, or NO_RANK.
static int next_rank(const branching *search, int depth, int from)
{
    const weighed_layer *layer = &search->layer[depth];
    for (int rank = from; rank < search->rank_count; rank++) {
        if (search->load[rank] + layer->weight >= search->best) continue;
        if (has_room(search, depth, rank) && !is_twin(search, rank)) return rank;
    }
    return NO_RANK;
}

static int64_t largest_load(const branching *search)
{
    int64_t largest = 0;
    for (int rank = 0; rank < search->rank_count; rank++) {
        if (search->load[rank] > largest) largest = search->load[rank];
    }
    return largest;
}

/// Depth first, without recursion. @return whether all was searched
static bool branch(branching *search)
{
    int depth = 0;
    int from = 0;
    while (depth >= 0 && search->best > search->low) {
        if (search->nodes_left == 0) return false;
        const int rank = depth < search->layer_count ? next_rank(search, depth, from) : NO_RANK;
        if (rank != NO_RANK) {
            search->nodes_left--;
            put(search, depth, rank);
            depth++;
            from = 0;
            continue;
        }
        if (depth == search->layer_count) search->best = largest_load(search);
        depth--;
        if (depth < 0) break;
        from = search->rank[depth] + 1;
        take(search, depth);
    }
    return true;
}

status ana_assignment_search(const ana_layer_instance *instance, int64_t node_max, arena *memory,
                             ana_assignment_optimum *optimum, error_message *err)
{
    branching search = {0};
    branching_init(instance, memory, &search);
    search.nodes_left = node_max;
    find_greedy(&search);
    const bool is_complete = branch(&search);
    if (search.best == INT64_MAX) {
        return error_set(err, STATUS_INFEASIBLE, "no assignment of %d layers to %d ranks %s",
                         instance->layer_count, instance->stage_count,
                         is_complete ? "keeps the memory caps"
                                     : "within the memory caps was found");
    }
    *optimum = (ana_assignment_optimum){.low = is_complete ? search.best : search.low,
                                        .high = search.best,
                                        .is_exact = is_complete || search.best == search.low};
    return STATUS_OK;
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
    int cuts[ANA_RANGE_STAGES_MAX + 1];
    assert(stage_count >= 1 && stage_count <= layer_count && stage_count <= ANA_RANGE_STAGES_MAX);
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
