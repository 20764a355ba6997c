/// Graphs over which loads are balanced. A graph is a proper edge colouring in closed form: in
/// every colour a node has at most one partner. Neighbours, degrees and matchings all follow from
/// it.
#pragma once

#include "base/arena.h"
#include "base/status.h"

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
