/// Schemes that even loads out over a graph, one round at a time. Files scheme_*.c have them.
#pragma once

#include "analysis/converge/converge_coins.h"
#include "analysis/converge/converge_graph.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/// One scheme at work on one graph. Made by ana_scheme_open.
typedef struct ana_scheme_run {
    const struct ana_scheme *scheme;
    const ana_graph *graph;
    ana_graph_links links; // empty for a scheme that asks for partners by colour
    ana_coins coins;
    int64_t round; // rounds played
    double *load;  // [node_count] now; a round may move it elsewhere
    void *state;   // the scheme's own
} ana_scheme_run;

typedef struct ana_scheme {
    const char *name;
    bool is_random; // coins are thrown
    bool has_links; // it looks at all neighbours of a node
    /// NULL: it goes with every graph.
    /// @return STATUS_INVALID if it means nothing on this graph
    status (*check)(const ana_graph *graph, error_message *err);
    void *(*prepare)(const ana_scheme_run *run, arena *memory); // its state; NULL: none
    void (*begin)(ana_scheme_run *run);                         // from load; NULL: nothing to do
    void (*play)(ana_scheme_run *run);                          // round number run->round
} ana_scheme;

/// The schemes, NULL after the last.
extern const ana_scheme *const ana_schemes[];

/// @return what scheme->check says
status ana_scheme_check(const ana_scheme *scheme, const ana_graph *graph, error_message *err);

/// @param run out; everything in it is from memory. graph is borrowed as long as run.
/// @return as ana_scheme_check and ana_graph_link
status ana_scheme_open(const ana_scheme *scheme, const ana_graph *graph, arena *memory,
                       ana_scheme_run *run, error_message *err);

/// Begins with loads of the caller's. Loads and coins fix all that follows.
/// @param load [node_count] finite; for the graph `dynamic` in any order, which is not kept
void ana_scheme_begin(ana_scheme_run *run, const double *load, const ana_coins *coins);

/// Plays one round.
void ana_scheme_play(ana_scheme_run *run);

/// The factor by which the slowest part of the deviation shrinks per round of a linear scheme, in
/// the long run; 0: exact after finitely many rounds. NaN if not known in closed form. Of schemes
/// without an operator (max-neighbor, odd-even) that of first-order.
double ana_scheme_contraction(const ana_scheme *scheme, const ana_graph *graph);

/// What first-order diffusion does best on a graph.
typedef struct ana_first_order {
    double alpha;       // share of a difference that flows: 2 / (smallest + largest eigenvalue)
    double contraction; // largest modulus of an eigenvalue, other than 1, of 1 - alpha Laplacian
} ana_first_order;

ana_first_order ana_first_order_best(const ana_graph *graph);

extern const ana_scheme ana_scheme_max_neighbor;
extern const ana_scheme ana_scheme_odd_even;
extern const ana_scheme ana_scheme_first_order;
extern const ana_scheme ana_scheme_second_order;
extern const ana_scheme ana_scheme_chebyshev;
extern const ana_scheme ana_scheme_dimension_exchange;
extern const ana_scheme ana_scheme_scan;
