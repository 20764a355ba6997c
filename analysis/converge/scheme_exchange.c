/// Pairs without coins: odd-even and dimension-exchange.
///
/// Odd-even averages. On paths and rings of even length the edges of odd and of even number take
/// turns, the kind with more difference first. On the complete graph the k-th heaviest meets the
/// k-th lightest (derived in the folder's README). On the others edges are taken in order of their
/// gap, as long as both ends are free: on the complete graph that would give the same pairs.
/// Source: Hosseini et al. 1990.
///
/// Dimension exchange: all pairs of one colour exchange; the colours take turns. Source: Cybenko
/// 1989 (hypercubes), Hosseini et al. 1990 (colourings).
#include "analysis/converge/converge_scheme.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct gap_edge {
    double gap;
    int left;
    int right;
} gap_edge;

typedef struct loaded_node {
    double load;
    int node;
} loaded_node;

typedef struct exchange_state {
    double share;       // of a difference that flows
    loaded_node *order; // [node_count] complete graph: nodes by load
    gap_edge *edge;     // [edge_count] where edges are taken by gap
    bool *is_taken;     // [node_count]
    int edge_count;
    int first_colour;
} exchange_state;

/// Both partners compute their part with the same products, so that what one gives the other gets.
static double exchange(double *load, int left, int right, double share)
{
    const double a = load[left];
    const double b = load[right];
    if (share == 0.5) {
        load[left] = load[right] = (a + b) * 0.5;
    } else {
        load[left] = (1 - share) * a + share * b;
        load[right] = share * a + (1 - share) * b;
    }
    return fabs(a - b);
}

static double exchange_colour(ana_scheme_run *run, int colour, double share)
{
    const ana_graph *graph = run->graph;
    double gaps = 0;
    if (graph->kind == ANA_GRAPH_STAR) return exchange(run->load, 0, colour + 1, share);
    for (int node = 0; node < graph->node_count; node++) {
        const int other = ana_graph_partner(graph, colour, node);
        if (other > node) gaps += exchange(run->load, node, other, share);
    }
    return gaps;
}

static bool alternates(const ana_graph *graph)
{
    return graph->kind == ANA_GRAPH_PATH || graph->kind == ANA_GRAPH_DYNAMIC ||
           (graph->kind == ANA_GRAPH_RING && graph->node_count % 2 == 0);
}

static status list_edges(const ana_graph *graph, arena *memory, exchange_state *state,
                         error_message *err)
{
    ana_graph_links links = {0};
    TRY(ana_graph_link(graph, memory, &links, err));
    const size_t edges = (size_t)links.first[graph->node_count] / 2;
    state->edge = arena_array(memory, edges, sizeof *state->edge);
    state->is_taken = arena_array(memory, (size_t)graph->node_count, sizeof *state->is_taken);
    for (int node = 0; node < graph->node_count; node++) {
        for (int link = links.first[node]; link < links.first[node + 1]; link++) {
            if (links.neighbour[link] < node) continue;
            state->edge[state->edge_count++] =
                (gap_edge){.left = node, .right = links.neighbour[link]};
        }
    }
    return STATUS_OK;
}

static status prepare_odd_even(ana_scheme_run *run, arena *memory, error_message *err)
{
    const size_t nodes = (size_t)run->graph->node_count;
    exchange_state *state = arena_array(memory, 1, sizeof *state);
    run->state = state;
    state->order = arena_array(memory, nodes, sizeof *state->order);
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
static void begin_odd_even(ana_scheme_run *run)
{
    exchange_state *state = run->state;
    if (!alternates(run->graph) || run->round > 0) return;
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

static double play_greedy(ana_scheme_run *run, exchange_state *state)
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
        gaps += exchange(run->load, at->left, at->right, 0.5);
    }
    return gaps;
}

static int by_load(const void *left, const void *right)
{
    const loaded_node *a = left;
    const loaded_node *b = right;
    if (a->load != b->load) return a->load < b->load ? -1 : 1;
    return a->node - b->node;
}

static double play_fold(ana_scheme_run *run, exchange_state *state)
{
    const int nodes = run->graph->node_count;
    for (int node = 0; node < nodes; node++) {
        state->order[node] = (loaded_node){run->load[node], node};
    }
    qsort(state->order, (size_t)nodes, sizeof *state->order, by_load);
    double gaps = 0;
    for (int k = 0; k < nodes / 2; k++) {
        gaps += exchange(run->load, state->order[k].node, state->order[nodes - 1 - k].node, 0.5);
    }
    return gaps;
}

static double play_odd_even(ana_scheme_run *run)
{
    exchange_state *state = run->state;
    if (run->graph->kind == ANA_GRAPH_COMPLETE) return play_fold(run, state);
    if (!alternates(run->graph)) return play_greedy(run, state);
    const int64_t turn = run->round + state->first_colour;
    return exchange_colour(run, (int)(turn % ana_graph_colour_count(run->graph)), 0.5);
}

const ana_scheme ana_scheme_odd_even = {
    .name = "odd-even",
    .is_matching = true,
    .prepare = prepare_odd_even,
    .begin = begin_odd_even,
    .play = play_odd_even,
};

double ana_exchange_parameter(const ana_graph *graph, ana_exchange exchange)
{
    const double pi = 3.14159265358979323846;
    if (exchange == ANA_EXCHANGE_HALF) return 0.5;
    switch (graph->kind) {
    case ANA_GRAPH_PATH:
        return 1 / (1 + sin(pi / graph->node_count));
    case ANA_GRAPH_RING:
        return graph->node_count % 2 == 0 ? 1 / (1 + sin(2 * pi / graph->node_count)) : (double)NAN;
    case ANA_GRAPH_TORUS:
        if (graph->columns % 2 != 0 || graph->rows % 2 != 0) return (double)NAN;
        return 1 / (1 + sin(2 * pi / graph->columns));
    case ANA_GRAPH_HYPERCUBE:
        return 0.5;
    default:
        return (double)NAN;
    }
}

static status check_share(const ana_graph *graph, const ana_scheme_options *options,
                          error_message *err)
{
    if (!isnan(ana_exchange_parameter(graph, options->exchange))) return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "the optimal exchange on this %s of %d nodes is not known; it is on path, "
                     "hypercube, and ring and torus of even sides",
                     ana_graph_names[graph->kind], graph->node_count);
}

static status prepare_colours(ana_scheme_run *run, arena *memory, error_message *err)
{
    (void)err;
    exchange_state *state = arena_array(memory, 1, sizeof *state);
    state->share = ana_scheme_parameter(ana_exchange_parameter(run->graph, run->options.exchange));
    run->state = state;
    return STATUS_OK;
}

static double play_colour(ana_scheme_run *run)
{
    const exchange_state *state = run->state;
    const int colour = (int)(run->round % ana_graph_colour_count(run->graph));
    return exchange_colour(run, colour, state->share);
}

const ana_scheme ana_scheme_dimension_exchange = {
    .name = "dimension-exchange",
    .check = check_share,
    .prepare = prepare_colours,
    .play = play_colour,
};
