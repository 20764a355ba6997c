/// Graphs over which loads are balanced. A graph is a proper edge colouring in closed form: in
/// every colour a node has at most one partner. Neighbours, degrees and matchings all follow from
/// it.
#pragma once

#include "base/arena.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdint.h>

enum { ANA_NODES_MAX = 1 << 18, ANA_GRAPH_LINKS_MAX = 1 << 25 };

typedef enum ana_graph_kind {
    ANA_GRAPH_PATH,
    ANA_GRAPH_RING,
    ANA_GRAPH_TORUS,     ///< rows x columns, as square as node_count allows
    ANA_GRAPH_STAR,      ///< node 0 is the hub
    ANA_GRAPH_COMPLETE,  ///< everybody beside everybody
    ANA_GRAPH_HYPERCUBE, ///< node_count is a power of two
    ANA_GRAPH_DYNAMIC,   ///< in every round the path through the nodes in order of load
    ANA_GRAPH_COUNT
} ana_graph_kind;

extern const char *const ana_graph_names[ANA_GRAPH_COUNT];

typedef struct ana_graph {
    ana_graph_kind kind;
    int node_count;
    int rows;      // of a torus: the largest divisor up to the square root
    int columns;   // rows * columns == node_count
    int dimension; // of a hypercube
} ana_graph;

/// @param node_count in [2, ANA_NODES_MAX]
/// @return STATUS_INVALID if the graph has no such size: a ring below 3 nodes, a torus of a
///         prime, a hypercube beside the powers of two.
status ana_graph_make(ana_graph_kind kind, int node_count, ana_graph *graph, error_message *err);

/// Colours of the edges. As few as there can be, but for rings of odd length in a torus.
int ana_graph_colour_count(const ana_graph *graph);

/// The node at the other end of node's edge of a colour; -1 if it has none.
/// The neighbours of a dynamic graph are those of the path: nodes are then numbered by load.
int ana_graph_partner(const ana_graph *graph, int colour, int node);

/// All neighbours, ascending per node.
typedef struct ana_graph_links {
    int *first;     // [node_count + 1]
    int *neighbour; // [first[node_count]]
} ana_graph_links;

/// @return STATUS_UNSUPPORTED above ANA_GRAPH_LINKS_MAX links
status ana_graph_link(const ana_graph *graph, arena *memory, ana_graph_links *links,
                      error_message *err);

/// The eigenvalues of the Laplacian (degrees minus adjacency) that bound all others but 0.
typedef struct ana_graph_spectrum {
    double smallest; // the second: algebraic connectivity
    double largest;
} ana_graph_spectrum;

/// Closed forms; torus: sums of those of two rings.
ana_graph_spectrum ana_graph_eigenvalues(const ana_graph *graph);

// Loads of nodes: where they start, and how far from even they are.

typedef enum ana_initial {
    ANA_INITIAL_STEP, ///< all load evenly on the first half of the nodes (of odd counts the larger)
    ANA_INITIAL_POINT,  ///< all load on node 0
    ANA_INITIAL_RAMP,   ///< proportional to the node's number
    ANA_INITIAL_RANDOM, ///< uniform in [0, 1), then scaled
    ANA_INITIAL_COUNT
} ana_initial;

extern const char *const ana_initial_names[ANA_INITIAL_COUNT];

/// Loads whose sum is node_count, up to rounding.
/// @param load [node_count] out
/// @param random used by ANA_INITIAL_RANDOM alone
void ana_loads_fill(ana_initial initial, int node_count, rng *random, double *load);

/// Largest load minus smallest.
/// @param load [node_count], node_count >= 1
double ana_loads_spread(const double *load, int node_count);

/// The potential: sum over all pairs of nodes of the difference of their loads.
/// @param load    [node_count] finite, not changed
/// @param scratch [node_count]
///
/// A function of the sorted loads alone, to the last bit. Time O(node_count) if they are sorted
/// either way, else that of sorting them.
double ana_loads_potential(const double *load, int node_count, double *scratch);

// What is promised about the rounds of max-neighbor, and what the spectrum of a graph predicts.
// Derivations: README.md of this folder.

typedef enum ana_stop {
    ANA_STOP_PHI, ///< the potential, the sum over all pairs of the difference, is at most gamma
    ANA_STOP_GAP, ///< no two loads differ by more than gamma
    ANA_STOP_COUNT
} ana_stop;

extern const char *const ana_stop_names[ANA_STOP_COUNT];

/// A question about bounds. The total load is node_count.
typedef struct ana_bound_question {
    int node_count;
    double potential; // at the start
    ana_stop stop;
    double gamma; // > 0
    double delta; // chance of needing more, in (0, 1)
} ana_bound_question;

/// A round is good if the potential drops by at least spread times this: 1 / (60 ln(2 N)).
double ana_good_round_share(int node_count);

/// Good rounds that Lemma 2 of the DynMo paper allows until phi <= gamma, with the constants of its
/// proof: 60 N^2 ln(2 N) ln(S N^2 / gamma), rounded up. The home of this formula.
/// @param total S, the sum of the loads, in the unit of gamma
double ana_paper_good_rounds(int node_count, double total, double gamma);

/// The same for S = N, at most 2^53; for ANA_STOP_GAP the smaller of that and
/// 60 N S ln(2 N) / gamma.
int64_t ana_bound_paper(const ana_bound_question *question);

/// Rounds that max-neighbor exceeds with a chance of at most delta:
/// 4 N^2 ln(potential / (gamma delta)). For ANA_STOP_GAP the smaller of that with (N - 1) gamma in
/// the place of gamma, and 16 (N - 1) S / (gamma delta).
int64_t ana_bound_repaired(const ana_bound_question *question);

/// Rounds in which a deviation that shrinks by contraction per round brings the potential to gamma
/// (ANA_STOP_GAP: to gamma (N - 1), below which no two loads can differ by more).
/// @param contraction in [0, 1); 0: one round. NaN gives NaN.
double ana_rounds_predicted(const ana_bound_question *question, double contraction);

/// rounds / (N^2 ln(potential / gamma)), for ANA_STOP_GAP with (N - 1) gamma in the logarithm; NaN
/// if the start is there already.
double ana_convergence_constant(const ana_bound_question *question, double rounds);
