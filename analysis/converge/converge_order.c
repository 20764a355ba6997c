#include "analysis/converge/converge_order.h"

#include <assert.h>
#include <string.h>

enum { RUN_FILLED = ANA_ORDER_RUN_MAX / 2 };

void ana_order_make(int node_count, arena *memory, ana_order *order)
{
    // Halves of split runs have RUN_FILLED nodes and may lose them again: never more runs than this
    // without an empty one, which is taken back.
    const int capacity = node_count + 1 < 4 * (node_count / RUN_FILLED + 2)
                             ? node_count + 1
                             : 4 * (node_count / RUN_FILLED + 2);
    ana_order_run **runs = arena_array(memory, (size_t)capacity, sizeof(ana_order_run *));
    ana_order_run *run = arena_array(memory, (size_t)capacity, sizeof *run);
    for (int index = 0; index < capacity; index++) {
        runs[index] = run + index;
    }
    *order = (ana_order){.run = runs, .run_capacity = capacity};
}

/// Nodes ascending by load, stable, so by node among equals.
static void sort(const double *load, int count, int *node, int *spare)
{
    for (int width = 1; width < count; width *= 2) {
        for (int begin = 0; begin < count; begin += 2 * width) {
            const int middle = begin + width < count ? begin + width : count;
            const int end = middle + width < count ? middle + width : count;
            int left = begin;
            int right = middle;
            for (int at = begin; at < end; at++) {
                const bool takes_left =
                    right >= end || (left < middle && load[node[left]] <= load[node[right]]);
                spare[at] = takes_left ? node[left++] : node[right++];
            }
        }
        memcpy(node, spare, (size_t)count * sizeof *node);
    }
}

void ana_order_fill(ana_order *order, const double *load, int first, int node_count, int *scratch)
{
    const int count = node_count - first;
    for (int index = 0; index < count; index++) {
        scratch[index] = first + index;
    }
    sort(load, count, scratch, scratch + node_count);
    order->run_count = 0;
    for (int begin = 0; begin < count; begin += RUN_FILLED) {
        ana_order_run *run = order->run[order->run_count++];
        run->count = count - begin < RUN_FILLED ? count - begin : RUN_FILLED;
        for (int index = 0; index < run->count; index++) {
            run->node[index] = scratch[begin + index];
            run->load[index] = load[scratch[begin + index]];
        }
    }
}

static bool is_before(double load, int node, double other_load, int other_node)
{
    return load < other_load || (load == other_load && node < other_node);
}

/// The first run whose last node is not before (load, node); the last run if there is none.
static int find_run(const ana_order *order, double load, int node)
{
    int low = 0;
    int high = order->run_count - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        const ana_order_run *run = order->run[middle];
        if (is_before(run->load[run->count - 1], run->node[run->count - 1], load, node)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/// Nodes of a run that are before (load, node).
static int find_index(const ana_order_run *run, double load, int node)
{
    int low = 0;
    int high = run->count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (is_before(run->load[middle], run->node[middle], load, node)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void shift(ana_order_run *run, int from, int to)
{
    const size_t count = (size_t)(run->count - from);
    memmove(run->node + to, run->node + from, count * sizeof run->node[0]);
    memmove(run->load + to, run->load + from, count * sizeof run->load[0]);
}

/// An empty run goes behind the others.
static void take_back(ana_order *order, int empty)
{
    ana_order_run *spare = order->run[empty];
    order->run_count--;
    memmove(order->run + empty, order->run + empty + 1,
            (size_t)(order->run_count - empty) * sizeof(ana_order_run *));
    order->run[order->run_count] = spare;
}

void ana_order_remove(ana_order *order, double load, int node)
{
    const int at = find_run(order, load, node);
    ana_order_run *run = order->run[at];
    const int index = find_index(run, load, node);
    assert(index < run->count && run->node[index] == node && run->load[index] == load);
    shift(run, index + 1, index);
    run->count--;
    if (run->count == 0) take_back(order, at);
}

/// The upper half of a full run becomes a run of its own.
static void split(ana_order *order, int full)
{
    assert(order->run_count < order->run_capacity);
    ana_order_run *upper = order->run[order->run_count];
    ana_order_run *lower = order->run[full];
    memmove(order->run + full + 2, order->run + full + 1,
            (size_t)(order->run_count - full - 1) * sizeof(ana_order_run *));
    order->run[full + 1] = upper;
    order->run_count++;
    upper->count = lower->count - RUN_FILLED;
    memcpy(upper->node, lower->node + RUN_FILLED, (size_t)upper->count * sizeof upper->node[0]);
    memcpy(upper->load, lower->load + RUN_FILLED, (size_t)upper->count * sizeof upper->load[0]);
    lower->count = RUN_FILLED;
}

void ana_order_insert(ana_order *order, double load, int node)
{
    if (order->run_count == 0) {
        order->run[0]->count = 0;
        order->run_count = 1;
    }
    int at = find_run(order, load, node);
    if (order->run[at]->count == ANA_ORDER_RUN_MAX) {
        split(order, at);
        at = find_run(order, load, node);
    }
    ana_order_run *run = order->run[at];
    const int index = find_index(run, load, node);
    shift(run, index, index + 1);
    run->node[index] = node;
    run->load[index] = load;
    run->count++;
}

ana_order_place ana_order_find(const ana_order *order, double load, int node)
{
    if (order->run_count == 0) return (ana_order_place){.run = -1, .index = 0};
    const int at = find_run(order, load, node);
    const int index = find_index(order->run[at], load, node);
    if (index < order->run[at]->count) return (ana_order_place){.run = at, .index = index};
    return (ana_order_place){.run = at + 1, .index = 0};
}

ana_order_place ana_order_lightest(const ana_order *order)
{
    return (ana_order_place){.run = order->run_count > 0 ? 0 : -1, .index = 0};
}

ana_order_place ana_order_heaviest(const ana_order *order)
{
    const int last = order->run_count - 1;
    return (ana_order_place){.run = last, .index = last < 0 ? 0 : order->run[last]->count - 1};
}

bool ana_order_is_end(const ana_order *order, ana_order_place place)
{
    return place.run < 0 || place.run >= order->run_count;
}

ana_order_place ana_order_heavier(const ana_order *order, ana_order_place place)
{
    if (++place.index < order->run[place.run]->count) return place;
    return (ana_order_place){.run = place.run + 1, .index = 0};
}

ana_order_place ana_order_lighter(const ana_order *order, ana_order_place place)
{
    if (--place.index >= 0) return place;
    const int run = place.run - 1;
    return (ana_order_place){.run = run, .index = run < 0 ? 0 : order->run[run]->count - 1};
}
