/// Pairs that average without coins: odd-even and dimension-exchange.
///
/// Dimension exchange: all pairs of one colour average; the colours take turns. Source: Cybenko
/// 1989 (hypercubes), Hosseini et al. 1990 (colourings).
///
/// Odd-even does so on paths and rings of even length, the colour with more difference first. On
/// the others edges are taken in order of their gap, as long as both ends are free: on the complete
/// graph the k-th heaviest meets the k-th lightest (derived in the folder's README). Source:
/// Hosseini et al. 1990.
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
    gap_edge *edge; // [edge_count] where edges are taken by gap
    int edge_count;
    bool *is_taken;   // [node_count]
    int first_colour; // of the path's and the ring's
} odd_even;

static void average(double *load, int left, int right)
{
    load[left] = load[right] = (load[left] + load[right]) * 0.5;
}

static void play_colour(ana_scheme_run *run, int64_t turn)
{
    const ana_graph *graph = run->graph;
    const int colour = (int)(turn % ana_graph_colour_count(graph));
    if (graph->kind == ANA_GRAPH_STAR) {
        average(run->load, 0, colour + 1);
        return;
    }
    for (int node = 0; node < graph->node_count; node++) {
        const int other = ana_graph_partner(graph, colour, node);
        if (other > node) average(run->load, node, other);
    }
}

static bool alternates(const ana_graph *graph)
{
    return graph->kind == ANA_GRAPH_PATH || graph->kind == ANA_GRAPH_DYNAMIC ||
           (graph->kind == ANA_GRAPH_RING && graph->node_count % 2 == 0);
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

static void list_edges(const ana_scheme_run *run, odd_even *state)
{
    const ana_graph_links *links = &run->links;
    state->edge_count = 0;
    for (int node = 0; node < run->graph->node_count; node++) {
        for (int link = links->first[node]; link < links->first[node + 1]; link++) {
            const int other = links->neighbour[link];
            if (other < node) continue;
            state->edge[state->edge_count++] =
                (gap_edge){fabs(run->load[node] - run->load[other]), node, other};
        }
    }
}

static void *prepare_odd_even(const ana_scheme_run *run, arena *memory)
{
    const size_t nodes = (size_t)run->graph->node_count;
    odd_even *state = arena_array(memory, 1, sizeof *state);
    state->is_taken = arena_array(memory, nodes, sizeof *state->is_taken);
    if (alternates(run->graph)) return state;
    const size_t edges = (size_t)run->links.first[nodes] / 2;
    state->edge = arena_array(memory, edges, sizeof *state->edge);
    return state;
}

static void begin_odd_even(ana_scheme_run *run)
{
    odd_even *state = run->state;
    if (!alternates(run->graph)) return;
    state->first_colour =
        ana_graph_colour_count(run->graph) > 1 &&
        colour_gaps(run->graph, run->load, 1) > colour_gaps(run->graph, run->load, 0);
}

static int by_gap(const void *left, const void *right)
{
    const gap_edge *a = left;
    const gap_edge *b = right;
    if (a->gap != b->gap) return a->gap < b->gap ? 1 : -1;
    if (a->left != b->left) return a->left - b->left;
    return a->right - b->right;
}

static void play_odd_even(ana_scheme_run *run)
{
    odd_even *state = run->state;
    if (alternates(run->graph)) {
        play_colour(run, run->round + state->first_colour);
        return;
    }
    list_edges(run, state);
    qsort(state->edge, (size_t)state->edge_count, sizeof *state->edge, by_gap);
    memset(state->is_taken, 0, (size_t)run->graph->node_count * sizeof *state->is_taken);
    for (int edge = 0; edge < state->edge_count; edge++) {
        const gap_edge *at = &state->edge[edge];
        if (state->is_taken[at->left] || state->is_taken[at->right]) continue;
        state->is_taken[at->left] = state->is_taken[at->right] = true;
        average(run->load, at->left, at->right);
    }
}

const ana_scheme ana_scheme_odd_even = {
    .name = "odd-even",
    .has_links = true,
    .prepare = prepare_odd_even,
    .begin = begin_odd_even,
    .play = play_odd_even,
};

static void play_dimension(ana_scheme_run *run)
{
    play_colour(run, run->round);
}

const ana_scheme ana_scheme_dimension_exchange = {
    .name = "dimension-exchange",
    .play = play_dimension,
};
