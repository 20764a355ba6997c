/// Pairs without coins. On paths and rings of even length the edges of odd and of even number take
/// turns, the kind with more difference first. On the complete graph the k-th heaviest meets the
/// k-th lightest. On the others edges are taken in order of their gap, as long as both ends are
/// free: on the complete graph that would give the same pairs. Source: Hosseini et al. 1990; the
/// fold is derived in the folder's README.
#include "analysis/converge/converge_loads.h"
#include "analysis/converge/converge_scheme.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gap_edge {
    double gap;
    int left;
    int right;
} gap_edge;

typedef struct odd_even {
    double *before; // [node_count]
    int *order;     // [node_count] complete graph: nodes by load
    int *spare;     // [node_count]
    gap_edge *edge; // [edge_count] other graphs
    bool *is_taken; // [node_count]
    int edge_count;
    int first_colour;
} odd_even;

static status check(const ana_graph *graph, const ana_scheme_options *options, error_message *err)
{
    (void)graph;
    (void)options;
    (void)err;
    return STATUS_OK;
}

static bool alternates(const ana_graph *graph)
{
    return graph->kind == ANA_GRAPH_PATH || graph->kind == ANA_GRAPH_DYNAMIC ||
           (graph->kind == ANA_GRAPH_RING && graph->node_count % 2 == 0);
}

static status list_edges(const ana_graph *graph, arena *memory, odd_even *state, error_message *err)
{
    ana_graph_links links = {0};
    TRY(ana_graph_link(graph, memory, &links, err));
    state->edge_count = links.first[graph->node_count] / 2;
    state->edge = arena_array(memory, (size_t)state->edge_count, sizeof *state->edge);
    state->is_taken = arena_array(memory, (size_t)graph->node_count, sizeof *state->is_taken);
    int edge = 0;
    for (int node = 0; node < graph->node_count; node++) {
        for (int link = links.first[node]; link < links.first[node + 1]; link++) {
            if (links.neighbour[link] < node) continue;
            state->edge[edge++] = (gap_edge){.left = node, .right = links.neighbour[link]};
        }
    }
    return STATUS_OK;
}

static status prepare(ana_scheme_run *run, arena *memory, error_message *err)
{
    const size_t nodes = (size_t)run->graph->node_count;
    odd_even *state = arena_array(memory, 1, sizeof *state);
    state->before = arena_array(memory, nodes, sizeof *state->before);
    state->order = arena_array(memory, nodes, sizeof *state->order);
    state->spare = arena_array(memory, nodes, sizeof *state->spare);
    run->state = state;
    if (alternates(run->graph) || run->graph->kind == ANA_GRAPH_COMPLETE) return STATUS_OK;
    return list_edges(run->graph, memory, state, err);
}

static double colour_gaps(const ana_graph *graph, const double *load, int colour)
{
    double gaps = 0;
    for (int node = 0; node < graph->node_count; node++) {
        const int other = ana_graph_partner(graph, colour, node);
        if (other > node) gaps += fabs(load[node] - load[other]);
    }
    return gaps;
}

/// The colour with more difference has the even rounds if the run begins at one; a run that is
/// taken up later keeps its turns.
static void begin(ana_scheme_run *run)
{
    odd_even *state = run->state;
    if (!alternates(run->graph) || run->round > 0) return;
    state->first_colour =
        ana_graph_colour_count(run->graph) > 1 &&
        colour_gaps(run->graph, run->load, 1) > colour_gaps(run->graph, run->load, 0);
}

static double average(double *load, int left, int right)
{
    const double gap = fabs(load[left] - load[right]);
    load[left] = load[right] = (load[left] + load[right]) * 0.5;
    return gap;
}

static double play_alternating(ana_scheme_run *run, const odd_even *state)
{
    const ana_graph *graph = run->graph;
    const int nodes = graph->node_count;
    const int colours = ana_graph_colour_count(graph);
    const int colour = (int)((run->round + state->first_colour) % colours);
    double gaps = 0;
    for (int node = colour; node + 1 < nodes; node += 2) {
        gaps += average(run->load, node, node + 1);
    }
    if (graph->kind == ANA_GRAPH_RING && colour == 1) gaps += average(run->load, nodes - 1, 0);
    return gaps;
}

/// Nodes by load, stable, bottom up.
static void merge_sort(const double *load, int *order, int *spare, int nodes)
{
    for (int width = 1; width < nodes; width *= 2) {
        for (int begin_at = 0; begin_at < nodes; begin_at += 2 * width) {
            const int middle = begin_at + width < nodes ? begin_at + width : nodes;
            const int end = begin_at + 2 * width < nodes ? begin_at + 2 * width : nodes;
            int left = begin_at;
            int right = middle;
            for (int at = begin_at; at < end; at++) {
                const bool takes_left =
                    right >= end || (left < middle && load[order[left]] <= load[order[right]]);
                spare[at] = takes_left ? order[left++] : order[right++];
            }
        }
        memcpy(order, spare, (size_t)nodes * sizeof *order);
    }
}

static int by_gap(const void *left, const void *right)
{
    const gap_edge *a = left;
    const gap_edge *b = right;
    if (a->gap != b->gap) return a->gap < b->gap ? 1 : -1;
    if (a->left != b->left) return a->left - b->left;
    return a->right - b->right;
}

static double play_greedy(ana_scheme_run *run, odd_even *state)
{
    for (int edge = 0; edge < state->edge_count; edge++) {
        gap_edge *at = &state->edge[edge];
        at->gap = fabs(run->load[at->left] - run->load[at->right]);
    }
    qsort(state->edge, (size_t)state->edge_count, sizeof *state->edge, by_gap);
    memset(state->is_taken, 0, (size_t)run->graph->node_count * sizeof *state->is_taken);
    double gaps = 0;
    for (int edge = 0; edge < state->edge_count; edge++) {
        const gap_edge *at = &state->edge[edge];
        if (state->is_taken[at->left] || state->is_taken[at->right]) continue;
        state->is_taken[at->left] = state->is_taken[at->right] = true;
        gaps += average(run->load, at->left, at->right);
    }
    return gaps;
}

static double play_fold(ana_scheme_run *run, odd_even *state)
{
    const int nodes = run->graph->node_count;
    for (int node = 0; node < nodes; node++) {
        state->order[node] = node;
    }
    merge_sort(run->load, state->order, state->spare, nodes);
    double gaps = 0;
    for (int k = 0; k < nodes / 2; k++) {
        gaps += average(run->load, state->order[k], state->order[nodes - 1 - k]);
    }
    return gaps;
}

static double play(ana_scheme_run *run)
{
    odd_even *state = run->state;
    memcpy(state->before, run->load, (size_t)run->graph->node_count * sizeof *run->load);
    if (alternates(run->graph)) return play_alternating(run, state);
    if (run->graph->kind == ANA_GRAPH_COMPLETE) return play_fold(run, state);
    return play_greedy(run, state);
}

static void recall(const ana_scheme_run *run, double *before)
{
    const odd_even *state = run->state;
    memcpy(before, state->before, (size_t)run->graph->node_count * sizeof *before);
}

const ana_scheme ana_scheme_odd_even = {
    .name = "odd-even",
    .is_matching = true,
    .is_monotone = true,
    .check = check,
    .prepare = prepare,
    .begin = begin,
    .play = play,
    .recall = recall,
};
