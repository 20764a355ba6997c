#include "analysis/converge/converge_graph.h"

#include <gsl/gsl_sort_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

const char *const ana_graph_names[ANA_GRAPH_COUNT] = {
    "path", "ring", "torus", "star", "complete", "hypercube", "dynamic",
};

static int largest_divisor_up_to_root(int count)
{
    int divisor = 1;
    for (int candidate = 2; candidate <= count / candidate; candidate++) {
        if (count % candidate == 0) divisor = candidate;
    }
    return divisor;
}

static int binary_logarithm(int count)
{
    int dimension = 0;
    while (count >> (dimension + 1) > 0) {
        dimension++;
    }
    return dimension;
}

status ana_graph_make(ana_graph_kind kind, int node_count, ana_graph *graph, error_message *err)
{
    const char *name = ana_graph_names[kind];
    if (node_count < 2 || node_count > ANA_NODES_MAX) {
        return error_set(err, STATUS_INVALID, "%d nodes are outside [2, %d]", node_count,
                         ANA_NODES_MAX);
    }
    const int rows = largest_divisor_up_to_root(node_count);
    const int dimension = binary_logarithm(node_count);
    if (kind == ANA_GRAPH_RING && node_count < 3) {
        return error_set(err, STATUS_INVALID, "%s: %d nodes; it needs 3", name, node_count);
    }
    if (kind == ANA_GRAPH_TORUS && rows == 1) {
        return error_set(err, STATUS_INVALID,
                         "%s: %d nodes make no rows and columns; it needs a product of two", name,
                         node_count);
    }
    if (kind == ANA_GRAPH_HYPERCUBE && 1 << dimension != node_count) {
        return error_set(err, STATUS_INVALID, "%s: %d nodes are no power of two", name, node_count);
    }
    *graph = (ana_graph){.kind = kind,
                         .node_count = node_count,
                         .rows = rows,
                         .columns = node_count / rows,
                         .dimension = dimension};
    return STATUS_OK;
}

static int ring_colours(int length)
{
    return length == 2 ? 1 : length % 2 == 0 ? 2 : 3;
}

static int complete_colours(int count)
{
    return count % 2 == 0 ? count - 1 : count;
}

int ana_graph_colour_count(const ana_graph *graph)
{
    switch (graph->kind) {
    case ANA_GRAPH_PATH:
    case ANA_GRAPH_DYNAMIC:
        return graph->node_count == 2 ? 1 : 2;
    case ANA_GRAPH_RING:
        return ring_colours(graph->node_count);
    case ANA_GRAPH_TORUS:
        return ring_colours(graph->columns) + ring_colours(graph->rows);
    case ANA_GRAPH_STAR:
        return graph->node_count - 1;
    case ANA_GRAPH_COMPLETE:
        return complete_colours(graph->node_count);
    default: // ANA_GRAPH_HYPERCUBE
        return graph->dimension;
    }
}

/// Edge e joins e and e + 1; colours alternate.
static int path_partner(int length, int colour, int node)
{
    const int other = node % 2 == colour ? node + 1 : node - 1;
    return other >= 0 && other < length ? other : -1;
}

/// As the path, and the edge that closes the ring in the colour that is left.
static int ring_partner(int length, int colour, int node)
{
    const int closing = length % 2 == 0 ? 1 : 2;
    if (length > 2 && colour == closing && (node == 0 || node == length - 1)) {
        return length - 1 - node;
    }
    return colour == 2 ? -1 : path_partner(length, colour, node);
}

/// The round-robin tournament: all but one stand on a circle, and pairs mirror each other at the
/// one who plays against the one left out; of odd counts the one left out does not exist.
static int complete_partner(int count, int colour, int node)
{
    const int circle = complete_colours(count);
    if (node == circle) return colour;
    const int other = (2 * colour + circle - node) % circle;
    if (other != node) return other;
    return count % 2 == 0 ? circle : -1;
}

static int torus_partner(const ana_graph *graph, int colour, int node)
{
    const int columns = graph->columns;
    const int row = node / columns;
    const int column = node % columns;
    const int in_row = ring_colours(columns);
    if (colour < in_row) {
        const int other = ring_partner(columns, colour, column);
        return other < 0 ? -1 : row * columns + other;
    }
    const int other = ring_partner(graph->rows, colour - in_row, row);
    return other < 0 ? -1 : other * columns + column;
}

int ana_graph_partner(const ana_graph *graph, int colour, int node)
{
    switch (graph->kind) {
    case ANA_GRAPH_PATH:
    case ANA_GRAPH_DYNAMIC:
        return path_partner(graph->node_count, colour, node);
    case ANA_GRAPH_RING:
        return ring_partner(graph->node_count, colour, node);
    case ANA_GRAPH_TORUS:
        return torus_partner(graph, colour, node);
    case ANA_GRAPH_STAR:
        return node == 0 ? colour + 1 : node == colour + 1 ? 0 : -1;
    case ANA_GRAPH_COMPLETE:
        return complete_partner(graph->node_count, colour, node);
    default: // ANA_GRAPH_HYPERCUBE
        return node ^ (1 << colour);
    }
}

static int ascending(const void *left, const void *right)
{
    const int a = *(const int *)left;
    const int b = *(const int *)right;
    return (a > b) - (a < b);
}

/// Writes the neighbours of a node, ascending. @return how many
static int list_neighbours(const ana_graph *graph, int node, int *neighbour)
{
    if (graph->kind == ANA_GRAPH_STAR && node > 0) {
        neighbour[0] = 0;
        return 1;
    }
    int count = 0;
    for (int colour = 0; colour < ana_graph_colour_count(graph); colour++) {
        const int other = ana_graph_partner(graph, colour, node);
        if (other >= 0) neighbour[count++] = other;
    }
    qsort(neighbour, (size_t)count, sizeof *neighbour, ascending);
    return count;
}

status ana_graph_link(const ana_graph *graph, arena *memory, ana_graph_links *links,
                      error_message *err)
{
    const int nodes = graph->node_count;
    const int64_t degree_max = ana_graph_colour_count(graph);
    const int64_t most = graph->kind == ANA_GRAPH_STAR ? 2 * degree_max : nodes * degree_max;
    if (most > ANA_GRAPH_LINKS_MAX) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s of %d nodes: %lld links exceed %d that are kept one by one",
                         ana_graph_names[graph->kind], nodes, (long long)most, ANA_GRAPH_LINKS_MAX);
    }
    int *first = arena_array(memory, (size_t)nodes + 1, sizeof *first);
    int *neighbour = arena_array(memory, (size_t)most, sizeof *neighbour);
    for (int node = 0; node < nodes; node++) {
        first[node + 1] = first[node] + list_neighbours(graph, node, neighbour + first[node]);
    }
    *links = (ana_graph_links){.first = first, .neighbour = neighbour};
    return STATUS_OK;
}

static ana_graph_spectrum ring_spectrum(int length)
{
    if (length == 2) return (ana_graph_spectrum){2, 2}; // one edge, not two
    const int fastest = length / 2;
    return (ana_graph_spectrum){2 - 2 * cos(2 * pi / length),
                                2 - 2 * cos(2 * pi * fastest / length)};
}

ana_graph_spectrum ana_graph_eigenvalues(const ana_graph *graph)
{
    const double nodes = graph->node_count;
    switch (graph->kind) {
    case ANA_GRAPH_PATH:
    case ANA_GRAPH_DYNAMIC:
        return (ana_graph_spectrum){2 - 2 * cos(pi / nodes), 2 + 2 * cos(pi / nodes)};
    case ANA_GRAPH_RING:
        return ring_spectrum(graph->node_count);
    case ANA_GRAPH_TORUS: {
        const ana_graph_spectrum along = ring_spectrum(graph->columns);
        const ana_graph_spectrum across = ring_spectrum(graph->rows);
        return (ana_graph_spectrum){fmin(along.smallest, across.smallest),
                                    along.largest + across.largest};
    }
    case ANA_GRAPH_STAR:
        return (ana_graph_spectrum){nodes == 2 ? 2 : 1, nodes};
    case ANA_GRAPH_COMPLETE:
        return (ana_graph_spectrum){nodes, nodes};
    default: // ANA_GRAPH_HYPERCUBE
        return (ana_graph_spectrum){2, 2.0 * graph->dimension};
    }
}

const char *const ana_initial_names[ANA_INITIAL_COUNT] = {"step", "point", "ramp", "random"};

static double initial_load(ana_initial initial, int node, int node_count, rng *random)
{
    switch (initial) {
    case ANA_INITIAL_STEP:
        return node < (node_count + 1) / 2 ? 1 : 0;
    case ANA_INITIAL_POINT:
        return node == 0 ? 1 : 0;
    case ANA_INITIAL_RAMP:
        return node;
    default:
        return rng_unit(random);
    }
}

void ana_loads_fill(ana_initial initial, int node_count, rng *random, double *load)
{
    double sum = 0;
    for (int node = 0; node < node_count; node++) {
        load[node] = initial_load(initial, node, node_count, random);
        sum += load[node];
    }
    for (int node = 0; node < node_count; node++) {
        load[node] = load[node] * node_count / sum;
    }
}

double ana_loads_spread(const double *load, int node_count)
{
    double low = load[0];
    double high = load[0];
    for (int node = 1; node < node_count; node++) {
        low = load[node] < low ? load[node] : low;
        high = load[node] > high ? load[node] : high;
    }
    return high - low;
}

/// The pair sum of ascending values: the k-th smallest is subtracted node_count - 1 - k times and
/// added k times. Values are taken relative to the smallest, so that nothing cancels but what must.
/// @param step 1; -1 for descending values
static double pair_sum(const double *sorted, int node_count, int step)
{
    const double *at = step > 0 ? sorted : sorted + node_count - 1;
    double sum = 0;
    for (int k = 0; k < node_count; k++) {
        sum += (2 * k + 1 - node_count) * (at[k * step] - at[0]);
    }
    return sum;
}

double ana_loads_potential(const double *load, int node_count, double *scratch)
{
    int rises = 0;
    int falls = 0;
    for (int node = 1; node < node_count; node++) {
        rises += load[node - 1] < load[node];
        falls += load[node - 1] > load[node];
    }
    if (falls == 0) return pair_sum(load, node_count, 1);
    if (rises == 0) return pair_sum(load, node_count, -1);
    memcpy(scratch, load, (size_t)node_count * sizeof *load);
    gsl_sort(scratch, 1, (size_t)node_count);
    return pair_sum(scratch, node_count, 1);
}

const char *const ana_stop_names[ANA_STOP_COUNT] = {"phi", "gap"};

static int64_t rounds_up(double rounds)
{
    if (!(rounds > 0)) return 0;
    return rounds >= 0x1p53 ? INT64_C(1) << 53 : (int64_t)ceil(rounds);
}

double ana_good_round_share(int node_count)
{
    return 1 / (60 * log(2.0 * node_count));
}

double ana_paper_good_rounds(int node_count, double total, double gamma)
{
    const double squared = (double)node_count * node_count;
    const double rounds = squared / ana_good_round_share(node_count) * log(total * squared / gamma);
    return rounds > 0 ? ceil(rounds) : 0;
}

int64_t ana_bound_paper(const ana_bound_question *question)
{
    const double nodes = question->node_count;
    const double by_potential = ana_paper_good_rounds(question->node_count, nodes, question->gamma);
    const double by_gap =
        nodes * nodes / (ana_good_round_share(question->node_count) * question->gamma);
    return rounds_up(question->stop == ANA_STOP_GAP ? fmin(by_potential, by_gap) : by_potential);
}

/// The potential that surely means the stop: of a spread above gamma every other node has at least
/// gamma to the two extremes together, and these have it to each other.
static double potential_wanted(const ana_bound_question *question)
{
    const double pairs = question->stop == ANA_STOP_GAP ? question->node_count - 1 : 1;
    return pairs * question->gamma;
}

int64_t ana_bound_repaired(const ana_bound_question *question)
{
    const double nodes = question->node_count;
    const double folds = log(question->potential / (potential_wanted(question) * question->delta));
    const double by_potential = 4 * nodes * nodes * folds;
    const double by_gap = 16 * (nodes - 1) * nodes / (question->gamma * question->delta);
    return rounds_up(question->stop == ANA_STOP_GAP ? fmin(by_potential, by_gap) : by_potential);
}

double ana_rounds_predicted(const ana_bound_question *question, double contraction)
{
    const double folds = log(question->potential / potential_wanted(question));
    if (isnan(contraction)) return contraction;
    if (!(folds > 0)) return 0;
    return contraction <= 0 ? 1 : fmax(1, folds / -log(contraction));
}

double ana_convergence_constant(const ana_bound_question *question, double rounds)
{
    const double nodes = question->node_count;
    const double folds = log(question->potential / potential_wanted(question));
    return folds > 0 ? rounds / (nodes * nodes * folds) : (double)NAN;
}
