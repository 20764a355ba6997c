#include "analysis/converge/range_optimum.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/// The next cuts in dictionary order with no stage empty; false behind the last.
static bool next_cuts(int *first, int layer_count, int stage_count)
{
    for (int stage = stage_count - 1; stage > 0; stage--) {
        if (first[stage] == layer_count - (stage_count - stage)) continue;
        first[stage]++;
        for (int behind = stage + 1; behind < stage_count; behind++) {
            first[behind] = first[behind - 1] + 1;
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
        plans->range_load_max = load;
        return true;
    }
    if (load > plans->range_load_max) plans->range_load_max = load;
    if (load >= plans->range_load_min) return false;
    plans->range_load_min = load;
    return true;
}

ana_range_plans ana_range_enumerate(const int64_t *weight, int layer_count, int stage_count,
                                    int *first)
{
    enum { STAGES_MAX = 64 };
    int cuts[STAGES_MAX + 1];
    assert(stage_count >= 1 && stage_count <= layer_count && stage_count <= STAGES_MAX);
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

typedef struct range_search {
    int layer_count;
    int stage_count;
    int64_t *before;   // [layer_count + 1] sums of the weights in front
    int64_t *sum;      // [sum_count] sums of runs of layers that a stage of a good plan could have
    int64_t sum_count; // ascending, each once
    int *reached;      // [layer_count + 2] of the stages so far: counts of cuts before each
    int *next_reached; // [layer_count + 2]
} range_search;

static int compare_sums(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/// Sums of runs of layers from low to high; how many there are where sum is NULL.
static int64_t list_sums(const int64_t *before, int layer_count, int64_t low, int64_t high,
                         int64_t *sum)
{
    int64_t count = 0;
    for (int begin = 0; begin < layer_count; begin++) {
        for (int end = begin + 1; end <= layer_count; end++) {
            const int64_t load = before[end] - before[begin];
            if (load > high) break;
            if (load < low) continue;
            if (sum != NULL) sum[count] = load;
            count++;
        }
    }
    return count;
}

static void range_search_init(const int64_t *weight, int layer_count, int stage_count,
                              int64_t upper_range, arena *memory, range_search *out)
{
    const size_t cuts = (size_t)layer_count + 2;
    range_search made = {.layer_count = layer_count, .stage_count = stage_count};
    made.before = arena_array(memory, cuts, sizeof *made.before);
    made.reached = arena_array(memory, cuts, sizeof *made.reached);
    made.next_reached = arena_array(memory, cuts, sizeof *made.next_reached);
    for (int layer = 0; layer < layer_count; layer++) {
        made.before[layer + 1] = made.before[layer] + weight[layer];
    }
    // Smallest and largest load of a plan lie on both sides of the mean.
    const int64_t mean = made.before[layer_count] / stage_count;
    const int64_t low = mean > upper_range ? mean - upper_range : 0;
    const int64_t high = mean + 1 + upper_range;
    const int64_t count = list_sums(made.before, layer_count, low, high, NULL);
    made.sum = arena_array(memory, (size_t)count, sizeof *made.sum);
    list_sums(made.before, layer_count, low, high, made.sum);
    qsort(made.sum, (size_t)count, sizeof *made.sum, compare_sums);
    for (int64_t index = 0; index < count; index++) {
        if (index > 0 && made.sum[index] == made.sum[index - 1]) continue;
        made.sum[made.sum_count++] = made.sum[index];
    }
    *out = made;
}

/// Whether some plan has every load in [low, high]: which cuts the stages so far can end at. The
/// counts tell in constant time whether any cut of a window is among them.
static bool has_plan(range_search *search, int64_t low, int64_t high)
{
    const int layers = search->layer_count;
    const int64_t *before = search->before;
    for (int cut = 0; cut <= layers; cut++) {
        search->reached[cut + 1] = 1; // cut 0 alone
    }
    for (int stage = 0; stage < search->stage_count; stage++) {
        int begin = 0; // first cut whose run up to here is at most high
        int end = 0;   // first cut whose run up to here is below low, or which is here
        search->next_reached[0] = 0;
        search->next_reached[1] = 0;
        for (int cut = 1; cut <= layers; cut++) {
            while (before[cut] - before[begin] > high) {
                begin++;
            }
            while (end < cut && before[cut] - before[end] >= low) {
                end++;
            }
            const bool is_reached = end > begin && search->reached[end] > search->reached[begin];
            search->next_reached[cut + 1] = search->next_reached[cut] + (is_reached ? 1 : 0);
        }
        int *swapped = search->reached;
        search->reached = search->next_reached;
        search->next_reached = swapped;
    }
    return search->reached[layers + 1] > search->reached[layers];
}

void ana_range_smallest(const int64_t *weight, int layer_count, int stage_count,
                        int64_t upper_range, double work_max, arena *memory, int64_t *range,
                        int64_t *load_max, bool *is_exact)
{
    range_search search = {0};
    *is_exact = false;
    if ((double)layer_count * layer_count > work_max) return;
    range_search_init(weight, layer_count, stage_count, upper_range, memory, &search);
    if (2.0 * (double)search.sum_count * layer_count * stage_count > work_max) return;
    int64_t best = INT64_MAX;
    int64_t best_load = 0;
    int64_t high = 0; // the smallest that has a plan with low; never falls as low rises
    for (int64_t low = 0; low < search.sum_count; low++) {
        if (high < low) high = low;
        while (high < search.sum_count && !has_plan(&search, search.sum[low], search.sum[high])) {
            high++;
        }
        if (high == search.sum_count) break;
        if (search.sum[high] - search.sum[low] >= best) continue;
        best = search.sum[high] - search.sum[low];
        best_load = search.sum[high];
    }
    assert(best <= upper_range);
    *range = best;
    *load_max = best_load;
    *is_exact = true;
}
