#include "models/lengths/packing.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const model_packing_names[MODEL_PACK_COUNT] = {"arrival", "sorted",         "tokens",
                                                           "cost",    "karmarkar-karp", "exact"};

/// A sequence or bin by what it is sorted by.
typedef struct weighed {
    double weight;
    int index;
} weighed;

static int heavier_first(const void *a, const void *b)
{
    const weighed *left = a;
    const weighed *right = b;
    if (left->weight != right->weight) return left->weight > right->weight ? -1 : 1;
    return left->index < right->index ? -1 : 1;
}

/// Sequences by weight, the heaviest first.
static weighed *sorted(const double *weight, int count, arena *scratch)
{
    weighed *order = arena_array(scratch, (size_t)count, sizeof *order);
    for (int index = 0; index < count; index++) {
        order[index] = (weighed){weight[index], index};
    }
    qsort(order, (size_t)count, sizeof *order, heavier_first);
    return order;
}

static double *tokens_as_weights(const model_packing *packing, arena *scratch)
{
    double *weight = arena_array(scratch, (size_t)packing->count, sizeof *weight);
    for (int sequence = 0; sequence < packing->count; sequence++) {
        weight[sequence] = packing->tokens[sequence];
    }
    return weight;
}

static int emptiest(const int64_t *tokens, int bin_count)
{
    int found = 0;
    for (int bin = 1; bin < bin_count; bin++) {
        if (tokens[bin] < tokens[found]) found = bin;
    }
    return found;
}

/// One bin after the other; what is left when the last is full goes where there is most room.
///
/// @param order [count] the sequences, or NULL: as they come
static void fill_in_turn(const model_packing *packing, const weighed *order, arena *scratch,
                         int *bin_of)
{
    int64_t *filled = arena_array(scratch, (size_t)packing->bin_count, sizeof *filled);
    int bin = 0;
    for (int place = 0; place < packing->count; place++) {
        const int sequence = order != NULL ? order[place].index : place;
        const int64_t tokens = packing->tokens[sequence];
        while (bin < packing->bin_count && filled[bin] + tokens > packing->budget) {
            bin++;
        }
        const int chosen = bin < packing->bin_count ? bin : emptiest(filled, packing->bin_count);
        filled[chosen] += tokens;
        bin_of[sequence] = chosen;
    }
}

/// Whether one comes before another in a heap: the lighter, or the lower index.
static bool is_lighter(const weighed *a, const weighed *b)
{
    return a->weight < b->weight || (a->weight == b->weight && a->index < b->index);
}

/// The lightest bin with room, by looking at all; the one with fewest tokens where none has room.
static int lightest_with_room(const weighed *heap, const int64_t *filled, int bin_count,
                              int64_t budget, int64_t tokens)
{
    int found = -1;
    for (int place = 0; place < bin_count; place++) {
        if (filled[heap[place].index] + tokens > budget) continue;
        if (found < 0 || is_lighter(&heap[place], &heap[found])) found = place;
    }
    if (found >= 0) return found;
    const int bin = emptiest(filled, bin_count);
    for (found = 0; heap[found].index != bin;) {
        found++;
    }
    return found;
}

/// Lets an entry of a heap, the lightest on top, sink to where it belongs.
static void sink(weighed *heap, int count, int place)
{
    for (int child = 2 * place + 1; child < count; place = child, child = 2 * place + 1) {
        if (child + 1 < count && is_lighter(&heap[child + 1], &heap[child])) child++;
        if (is_lighter(&heap[place], &heap[child])) return;
        const weighed moved = heap[place];
        heap[place] = heap[child];
        heap[child] = moved;
    }
}

/// A heap of bins with nothing in them.
static weighed *empty_bins(int count, arena *scratch)
{
    weighed *heap = arena_array(scratch, (size_t)count, sizeof *heap);
    for (int bin = 0; bin < count; bin++) {
        heap[bin].index = bin;
    }
    return heap;
}

/// The heaviest sequence that is left goes to the lightest bin with room.
static void fill_lightest(const model_packing *packing, const double *weight, arena *scratch,
                          int *bin_of)
{
    const int bins = packing->bin_count;
    const weighed *order = sorted(weight, packing->count, scratch);
    int64_t *filled = arena_array(scratch, (size_t)bins, sizeof *filled);
    weighed *heap = empty_bins(bins, scratch);
    for (int place = 0; place < packing->count; place++) {
        const int sequence = order[place].index;
        const int64_t tokens = packing->tokens[sequence];
        const bool has_room = filled[heap[0].index] + tokens <= packing->budget;
        const int chosen =
            has_room ? 0 : lightest_with_room(heap, filled, bins, packing->budget, tokens);
        bin_of[sequence] = heap[chosen].index;
        filled[heap[chosen].index] += tokens;
        heap[chosen].weight += weight[sequence];
        sink(heap, bins, chosen);
    }
}

static bool keeps_budget(const model_packing *packing, const int *bin_of, arena *scratch)
{
    int64_t *filled = arena_array(scratch, (size_t)packing->bin_count, sizeof *filled);
    bool keeps = true;
    for (int sequence = 0; sequence < packing->count; sequence++) {
        filled[bin_of[sequence]] += packing->tokens[sequence];
        keeps = keeps && filled[bin_of[sequence]] <= packing->budget;
    }
    return keeps;
}

/// A part of a differencing: a set of sequences, and what it costs beyond the cheapest of its tuple
/// of as many parts as there are bins, the costliest first.
typedef struct subset {
    double cost;
    int first; // sequence, or -1; the others by next
    int last;
} subset;

static int costlier_first(const void *a, const void *b)
{
    const subset *left = a;
    const subset *right = b;
    if (left->cost != right->cost) return left->cost > right->cost ? -1 : 1;
    return left->first < right->first ? -1 : left->first > right->first;
}

/// Joins the costliest parts of one with the cheapest of the other.
static void join(subset *into, const subset *other, int bin_count, int *next)
{
    for (int part = 0; part < bin_count; part++) {
        subset *to = &into[part];
        const subset *from = &other[bin_count - 1 - part];
        to->cost += from->cost;
        if (from->first < 0) continue;
        if (to->first >= 0) {
            next[to->last] = from->first;
        } else {
            to->first = from->first;
        }
        to->last = from->last;
    }
    qsort(into, (size_t)bin_count, sizeof *into, costlier_first);
    const double least = into[bin_count - 1].cost;
    for (int part = 0; part < bin_count; part++) {
        into[part].cost -= least;
    }
}

/// The tuple with the largest difference is the lightest of the heap; ties: the older.
static void join_differences(const model_packing *packing, arena *scratch, int *bin_of)
{
    const int bins = packing->bin_count;
    int left = packing->count;
    weighed *heap = arena_array(scratch, (size_t)left, sizeof *heap);
    subset **tuple = arena_array(scratch, (size_t)left, sizeof *tuple);
    int *next = arena_array(scratch, (size_t)left, sizeof *next);
    const weighed *order = sorted(packing->cost, left, scratch);
    for (int place = 0; place < left; place++) { // sorted, so it is a heap
        const int sequence = order[place].index;
        subset *parts = tuple[place] = arena_array(scratch, (size_t)bins, sizeof *parts);
        for (int part = 0; part < bins; part++) {
            parts[part] = (subset){0, -1, -1};
        }
        parts[0] = (subset){packing->cost[sequence], sequence, sequence};
        heap[place] = (weighed){-packing->cost[sequence], place};
        next[sequence] = -1;
    }
    for (; left > 1; left--) {
        const int first = heap[0].index;
        heap[0] = heap[left - 1];
        sink(heap, left - 1, 0);
        join(tuple[first], tuple[heap[0].index], bins, next);
        heap[0] = (weighed){-tuple[first][0].cost, first};
        sink(heap, left - 1, 0);
    }
    for (int part = 0; part < bins; part++) {
        int sequence = tuple[heap[0].index][part].first;
        for (; sequence >= 0; sequence = next[sequence]) {
            bin_of[sequence] = part;
        }
    }
}

/// A search of all ways.
typedef struct search {
    const model_packing *packing;
    const weighed *order;
    double *load;    // [bin_count]
    int64_t *filled; // [bin_count]
    int *chosen;     // [count] bin of each sequence on the way
    int *best;       // [count]
    double best_load;
    double floor; // no way is below it
} search;

static void try_bins(search *state, int place, double largest)
{
    const model_packing *packing = state->packing;
    if (largest >= state->best_load || state->best_load <= state->floor) return;
    if (place == packing->count) {
        state->best_load = largest;
        memcpy(state->best, state->chosen, (size_t)packing->count * sizeof *state->best);
        return;
    }
    const int sequence = state->order[place].index;
    bool has_tried_empty = false;
    for (int bin = 0; bin < packing->bin_count; bin++) {
        const bool is_empty = state->filled[bin] == 0;
        if (is_empty && has_tried_empty) continue; // empty bins are alike
        has_tried_empty = has_tried_empty || is_empty;
        if (state->filled[bin] + packing->tokens[sequence] > packing->budget) continue;
        state->load[bin] += packing->cost[sequence];
        state->filled[bin] += packing->tokens[sequence];
        state->chosen[sequence] = bin;
        try_bins(state, place + 1, fmax(largest, state->load[bin]));
        state->load[bin] -= packing->cost[sequence];
        state->filled[bin] -= packing->tokens[sequence];
    }
}

/// @param bin_of in: a way; out: the best one
static void search_all(const model_packing *packing, arena *scratch, int *bin_of)
{
    const size_t bins = (size_t)packing->bin_count;
    search state = {.packing = packing,
                    .order = sorted(packing->cost, packing->count, scratch),
                    .load = arena_array(scratch, bins, sizeof(double)),
                    .filled = arena_array(scratch, bins, sizeof(int64_t)),
                    .chosen = arena_array(scratch, (size_t)packing->count, sizeof(int)),
                    .best = bin_of,
                    .best_load = INFINITY};
    double sum = 0;
    for (int sequence = 0; sequence < packing->count; sequence++) {
        sum += packing->cost[sequence];
        state.load[bin_of[sequence]] += packing->cost[sequence];
    }
    state.floor = fmax(sum / packing->bin_count, packing->count > 0 ? state.order[0].weight : 0);
    if (keeps_budget(packing, bin_of, scratch)) {
        state.best_load = 0;
        for (int bin = 0; bin < packing->bin_count; bin++) {
            state.best_load = fmax(state.best_load, state.load[bin]);
        }
    }
    memset(state.load, 0, bins * sizeof *state.load);
    try_bins(&state, 0, 0);
}

static status check_size(const model_packing *packing, error_message *err)
{
    const int64_t count = packing->count;
    if (packing->kind == MODEL_PACK_EXACT && count > MODEL_PACK_EXACT_MAX) {
        return error_set(err, STATUS_INVALID,
                         "packing 'exact' takes at most %d sequences at once, there are %d",
                         MODEL_PACK_EXACT_MAX, packing->count);
    }
    if (packing->kind == MODEL_PACK_KARMARKAR_KARP &&
        count * packing->bin_count > MODEL_PACK_DIFFERENCES_MAX) {
        return error_set(err, STATUS_INVALID,
                         "packing 'karmarkar-karp' takes at most %d sequences x microbatches at "
                         "once, there are %d x %d",
                         MODEL_PACK_DIFFERENCES_MAX, packing->count, packing->bin_count);
    }
    return STATUS_OK;
}

status model_pack(const model_packing *packing, arena *scratch, int *bin_of, error_message *err)
{
    TRY(check_size(packing, err));
    if (packing->count == 0) return STATUS_OK;
    switch (packing->kind) {
    case MODEL_PACK_ARRIVAL:
        fill_in_turn(packing, NULL, scratch, bin_of);
        break;
    case MODEL_PACK_SORTED:
        fill_in_turn(packing, sorted(tokens_as_weights(packing, scratch), packing->count, scratch),
                     scratch, bin_of);
        break;
    case MODEL_PACK_TOKENS:
        fill_lightest(packing, tokens_as_weights(packing, scratch), scratch, bin_of);
        break;
    case MODEL_PACK_KARMARKAR_KARP:
        join_differences(packing, scratch, bin_of);
        if (keeps_budget(packing, bin_of, scratch)) break;
        fill_lightest(packing, packing->cost, scratch, bin_of);
        break;
    case MODEL_PACK_EXACT:
        fill_lightest(packing, packing->cost, scratch, bin_of);
        search_all(packing, scratch, bin_of);
        break;
    default:
        fill_lightest(packing, packing->cost, scratch, bin_of);
        break;
    }
    return STATUS_OK;
}

void model_pack_deal(const double *cost, int group_count, int group_size, arena *scratch,
                     int *group_of)
{
    const int count = group_count * group_size;
    const weighed *order = sorted(cost, count, scratch);
    weighed *heap = empty_bins(group_count, scratch);
    int *members = arena_array(scratch, (size_t)group_count, sizeof *members);
    int open = group_count; // groups with room, a heap
    for (int place = 0; place < count; place++) {
        const int group = heap[0].index;
        group_of[order[place].index] = group;
        heap[0].weight += cost[order[place].index];
        if (++members[group] == group_size) heap[0] = heap[--open];
        sink(heap, open, 0);
    }
}
